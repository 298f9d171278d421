"""The cross-entropy method for 0-1 problems.

Read in this order: ``method`` (draw, keep the elite, move towards it), ``run`` (one run, iteration by
iteration), ``patterns`` (what is known of the patterns scored so far) and ``evaluation`` (how they are
scored: one by one, several at once, in batches).
"""

from polyopt.optim.cross_entropy.method import cross_entropy_minimize

__all__ = ["cross_entropy_minimize"]
