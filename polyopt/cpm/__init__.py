"""The Convex Polytope Machine: its solvers, certificates and estimators.

The programs are in ``formulations`` (``cpm``, ``cpm_margins``). Read in this
order: ``sgd`` (Algorithms 1 and 2), ``alternating`` (faces for a fixed assignment, then a new assignment),
``dual`` and ``face_dual`` (the same by coordinate ascent), ``global_search`` (branch and bound over
assignments); restricted faces: ``penalised``, ``few_features``, ``integer``; ``certificate``; ``solve`` (the
door to every solver) and ``estimator``.
"""
