"""Support vector machine, Sigma-SVM and Relative Margin Machine: one program over families of rows.

The programs are in ``formulations`` (``svm``, ``sigma_svm``, ``rmm``, ``rmm_bounded``); a family of rows, in
``formulations.families``, has one constraint per sample. Read in this order:

* solvers: ``decomposition`` (for kernels: working sets and a Newton phase), ``interior_point`` (for linear
  machines, by blocks of samples), ``path`` (solutions for a sequence of bounds B);
* certificates: ``geometry`` (feature spaces), ``certificate`` (primal value, dual bound and residuals),
  ``certificate_by_blocks``, ``certify`` (from data and solution vectors), ``claim`` (for claim files);
* estimators: ``fit`` (the base class), ``by_blocks`` (samples in blocks), ``svm``, ``sigma_svm``, ``rmm``;
  ``kernel_classifier`` and ``kernel_scorer`` (predictions), ``bounds`` (generalisation bounds).
"""
