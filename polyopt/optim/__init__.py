"""Optimisation methods that several families of machines share.

``rounds`` (the outer loop: limits, history, Ctrl-C) and ``starts`` (multistart); ``best_first`` (branch and
bound); ``coordinate_ascent`` (hinge duals of all faces at once), ``newton_steps``, ``warm_lp`` (a linear
program kept in HiGHS) and ``cross_entropy`` (the cross-entropy method for 0-1 patterns).
"""
