"""The L0 support vector machine's inner solvers.

Read in this order: ``point`` (where a search begins and ends), ``lp`` (the linear program of a pattern, and
the cuts that solved patterns leave), ``milp`` (the integer program by HiGHS), ``tree`` (branch and bound of
our own); of its parts that work in C ``node`` (a node's program, its bound, and HiGHS), ``open_nodes``
(what the search knows), ``branch`` (how it goes on), ``basis`` (a basis, its inverse and its point) and
``pivots`` (the steps from one to the next), each with a file ``native/l0_*.c``; ``quick`` (the program of a
pattern by the same steps); and ``leaves`` (a tree that is kept, whose leaves prove its bound).
"""
