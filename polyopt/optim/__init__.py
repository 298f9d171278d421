"""What several families of machines are optimised with.

``rounds`` (the loop of every outer method: limits, history, Ctrl-C), ``starts`` (many starts, the best of
them), ``alternating`` and ``descent`` (faces for given cells, cells for given faces); ``coordinate_ascent``
(hinge duals of all faces at once), ``logistic_newton``, ``warm_lp`` (a linear program kept in HiGHS) and
``cross_entropy``.
"""
