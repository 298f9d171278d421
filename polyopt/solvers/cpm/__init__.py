"""The Convex Polytope Machine's inner solvers.

Read in this order: ``sgd`` (the stochastic solver, Algorithms 1 and 2), ``dual`` (coordinate ascent for a
fixed assignment), ``face`` (one face on small data); of the branch and bound, ``bound`` (what every
completion of a partial assignment costs at least), ``tree`` (a node), ``spread`` (multipliers of a face that
follow the assignment), and ``priced_box`` (one face at prices of the positives); of faces with few features,
``smooth`` (Newton's method on a hinge that is rounded off) and ``subset`` (bounds on all choices).
"""
