"""The L0 support vector machine's inner solvers.

Read in this order: ``point`` (where a search begins and ends), ``lp`` (the linear program of a pattern),
``cuts`` (the bounds that solved patterns leave), ``milp`` (the integer program by HiGHS), ``tree`` (branch
and bound of our own) and ``node`` (a node's program).
"""
