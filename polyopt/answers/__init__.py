"""Scores of samples where they lie: one pass over the columns that have weights, without a copy.

``form`` says how the scores of faces become one, ``cells`` where a table's columns are, ``plan`` what
is done with each of them; ``loops`` does it, compiled, and ``sigmoid`` makes probabilities of the scores.
"""
