"""A convex polytope as its faces: points inside, redundant faces, size, corners, rules.

In the order to read: ``halfspaces`` (linear programs over them; corners and volume), ``faces`` (the set),
``code`` and ``rules`` (the faces for other programs, and as sentences), ``polytope`` (both together);
``projection`` (the nearest point of a polytope), ``region`` (outsides, unions, differences), ``nearest`` (the
nearest point of a region).
"""

from polyopt.polytope.faces import Ball
from polyopt.polytope.polytope import Polytope

__all__ = ["Ball", "Polytope"]
