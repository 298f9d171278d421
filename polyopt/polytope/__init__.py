"""A convex polytope as its faces: what is inside, which faces count, its size, its corners, its rules.

In the order to read:

faces        the faces, in whose units, and on which side of them points are
halfspaces   linear programs over them: is the set empty, how wide, which faces count
vertices     corners and volume
projection   the nearest point of it; active_set is the method
region       what is made of polytopes: outsides, unions, differences
question     what is asked of it: a sample, its units, and what may move
nearest      the nearest point of a region
rules        the faces as sentences, and what they leave out
forms        the faces for other programs
body         Polytope: all of it together
"""

from polyopt.polytope.body import Ball, Polytope

__all__ = ["Ball", "Polytope"]
