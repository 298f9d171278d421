"""A convex polytope as its faces: what is inside, which faces count, its size, its corners, its rules.

In the order to read:

halfspaces   linear programs over them: is the set empty, how wide, which faces count
vertices     corners and volume
projection   the nearest point of it
region       what is made of polytopes: outsides, unions, differences
nearest      the nearest point of a region: from where, in which units, and what may move
rules        the faces as sentences, and what they leave out
forms        the faces for other programs
body         Polytope: its faces, the side of a point, and all of the above together
"""

from polyopt.polytope.body import Ball, Polytope

__all__ = ["Ball", "Polytope"]
