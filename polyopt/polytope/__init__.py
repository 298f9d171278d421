"""A convex polytope as its faces: what is inside, which faces count, its size, its corners, its rules.

In the order to read:

faces        the faces, in whose units, and on which side of them points are
halfspaces   linear programs over them: is the set empty, how wide, which faces count
vertices     corners and volume
rules        the faces as sentences, and what they leave out
forms        the faces for other programs
body         Polytope: all of it together
"""

from polyopt.polytope.body import Ball, Polytope

__all__ = ["Ball", "Polytope"]
