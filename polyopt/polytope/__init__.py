"""A convex polytope as its faces: what is inside, which faces count, its size, its corners, its rules."""

from polyopt.polytope.body import Ball, Polytope

__all__ = ["Ball", "Polytope"]
