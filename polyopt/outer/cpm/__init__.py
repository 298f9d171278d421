"""The Convex Polytope Machine's loops.

Read in this order: ``solve`` (the door to every solver), ``problem`` (alternating minimisation: faces for a
fixed assignment, then a new assignment), ``dual`` (the same by coordinate ascent); ``optimum`` (branch and
bound over all assignments) with ``first`` (its first point), ``columns`` and ``prices``, ``spread`` and
``polish``; ``explicit_global`` (the mixed-integer programs of loss="max" and of the worst-case margin),
``leaves`` (the tree of a claim); ``subset`` (few features a face) with ``subset_tree`` (branch and bound over
them), and ``integer`` (faces of whole numbers).
"""
