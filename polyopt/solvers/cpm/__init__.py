"""The Convex Polytope Machine's inner solvers.

Read in this order: ``sgd`` (the stochastic solver) and ``kernels`` (its Algorithms 1 and 2), ``dual``
(coordinate ascent for a fixed assignment), ``face`` (one face on small data); of the branch and bound,
``bound`` (what every completion of a partial assignment costs at least) and ``tree`` (a node).
"""
