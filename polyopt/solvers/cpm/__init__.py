"""The Convex Polytope Machine's inner solvers.

Read in this order: ``sgd`` (the stochastic solver) and ``kernels`` (its Algorithms 1 and 2), ``dual``
(coordinate ascent for a fixed assignment), ``face`` (one face on small data); of the branch and bound,
``bound`` (what every completion of a partial assignment costs at least), ``tree`` (a node), ``spread`` and
``spread_bound`` (multipliers of a face that follow the assignment), and over boxes of the faces' coefficients
``box_bound`` and ``boxes``; of faces with few features, ``smooth`` (Newton's method on a hinge that is
rounded off) and ``subset`` (bounds on all choices).
"""
