"""Scores of samples where they lie: one pass over the columns that have weights, without a copy.

``form`` says how the scores of faces become one, ``cells`` where a table's columns are, ``weighed`` what is
done with each of them, ``packed`` the same as arrays; ``plan`` asks ``loops``, which do it, compiled, and
``sigmoid`` makes probabilities of the scores.
"""

import math

__all__ = ["ABOVE"]

ABOVE = math.nextafter(0.5, 1.0)
"""The least probability of a class, of two, that is the more probable."""
