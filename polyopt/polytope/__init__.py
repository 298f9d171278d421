"""A convex polytope as its faces: points inside, redundant faces, size, corners, rules.

In the order to read: ``halfspaces`` (linear programs over them; corners and volume), ``polytope`` (the set),
``rules`` and ``sql`` (its faces as sentences, JSON and SQL); ``projection`` (the nearest point of
a polytope), ``region`` (outsides, unions, differences), ``nearest`` (the nearest point of a region).
"""

from polyopt.polytope.halfspaces import Ball
from polyopt.polytope.polytope import Polytope

__all__ = ["Ball", "Polytope"]
