"""The optimum of the Convex Polytope Machine over all assignments, by branch and bound.

Read in this order: ``face`` (one face for fixed positives), ``assignment_tree`` (branch and bound over
partial assignments), ``prices`` (column generation, in few dimensions), ``spread`` (multipliers that depend
on the assignment, in any dimension), ``incumbent`` (heuristics), ``search`` (all of these together);
``claim_tree`` (the tree of a claim), ``explicit`` (mixed-integer programs for ``loss="max"`` and the
worst-case margin).
"""
