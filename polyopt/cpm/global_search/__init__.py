"""The optimum of the Convex Polytope Machine over all assignments, by branch and bound.

Read in this order: ``face`` (one face for given positives), ``assignment_tree`` (the lower bound of a partial
assignment, and the tree with it), ``prices`` (one face at prices, in few dimensions), ``spread`` (multipliers
that depend on the assignment, in any dimension), ``incumbent`` (the first point), ``search`` (all of them
together); ``claim_tree`` (the tree of a claim), ``explicit`` (mixed-integer programs for ``loss="max"`` and
the worst-case margin).
"""
