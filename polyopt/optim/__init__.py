"""Optimisation methods that several families of machines share.

``rounds`` (the loop of every outer method: limits, history, Ctrl-C) and ``starts`` (the best of many starts);
``best_first`` (branch and bound); ``coordinate_ascent`` (hinge duals of all faces at once),
``newton_steps``, ``warm_lp`` (a linear program kept in HiGHS) and ``cross_entropy``.
"""
