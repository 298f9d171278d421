"""The Convex Polytope Machine's loops.

Read in this order: ``solve`` (the door to every solver), ``problem`` (alternating minimisation: faces for a
fixed assignment, then a new assignment), ``dual`` (the same by coordinate ascent), ``dual_ends`` (its ends as
starts of the explicit programs), ``worst`` (the worst-case margin), ``explicit_global`` (its mixed-integer
program, and that of loss="max"), ``prepared``, ``boxes``, ``spread``,
``beside``, ``polish`` and ``optimum`` (branch and bound over all assignments), ``neighbours``, ``alike`` and
``groups`` (bounds for data of any size: of all samples together, and from searches of groups), ``subset``
(few features a face) with ``subset_tree`` (branch and bound over them) and ``subset_starts``, and ``integer``
(faces of whole numbers).
"""
