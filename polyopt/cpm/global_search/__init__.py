"""The optimum of the Convex Polytope Machine over all assignments, by branch and bound.

Read in this order: ``face`` (one face for given positives), ``bound`` (what every completion of a partial
assignment costs at least), ``tree`` (a node), ``incumbent`` (the first point), ``search`` (the loop);
``prices``, ``columns`` and ``priced_box`` (column generation), ``spread`` and ``spread_bound`` (multipliers
that follow the assignment), ``polish``; ``leaves`` (the tree of a claim); ``explicit`` (mixed-integer
programs for ``loss="max"`` and the worst-case margin).
"""
