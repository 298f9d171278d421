"""Support vector machine, Sigma-SVM and Relative Margin Machine: one program over families of rows.

The programs are in ``formulations`` (``svm``, ``sigma_svm``, ``rmm``, ``rmm_bounded``) and, as families of
rows, in ``formulations.families``. Read in this order: ``decomposition`` (kernels: working sets and a Newton
phase), ``interior_point`` (linear machines, by blocks), ``path`` (solutions over B); ``geometry`` (feature
spaces) and ``certificate`` (primal value, dual bound and residuals), ``certificate_by_blocks``, ``certify``
(from data and vectors alone), ``claim`` (for claim files); ``fit``, then the estimators ``svm``,
``sigma_svm``, ``rmm``.
"""
