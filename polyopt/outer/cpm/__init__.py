"""The Convex Polytope Machine's loops.

Read in this order: ``solve`` (the door to every solver), ``problem`` (alternating minimisation: faces for a
fixed assignment, then a new assignment), ``dual`` (the same by coordinate ascent), ``dual_ends`` (its ends as
starts of the explicit programs), ``worst`` (the worst-case margin), and ``prepared`` and ``optimum`` (branch
and bound over all assignments).
"""
