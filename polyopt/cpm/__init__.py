"""The Convex Polytope Machine: solvers, certificates and estimators.

The programs are in ``formulations`` (``cpm``, ``cpm_margins``, ``cpm_faces``, ``cpm_sparse``).
Read in this order: ``solve`` (the table of solvers), ``sgd`` (Algorithms 1 and 2, and the step rule),
``alternating`` (the program of a fixed assignment, solved in ``fixed_assignment``, then a new assignment),
``dual`` (the same by coordinate ascent), ``global_search`` (branch and bound over assignments).

Restricted faces: ``penalised`` (ℓ1, groups, signs), ``few_features`` (with ``few_feature_face`` and
``few_feature_tree``), ``integer``.
Certificates: ``certificate``, ``certificate_restricted``, ``certificate_by_blocks``; ``claim`` writes files.
Samples in blocks: ``by_blocks``, with ``sgd_by_blocks``, ``alternating_by_blocks`` and
``face_ascent_by_blocks``. Then ``estimator``, which ``two_sides``, ``stream`` and ``duals`` (the table of
multipliers) complete.
"""
