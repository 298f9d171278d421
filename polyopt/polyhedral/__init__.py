"""Polyceptron, SPLA1, PC-SLP, PLUME and logistic polytopes: solvers, estimators and certificates.

Solver and estimator of a method are in one file: ``polyceptron`` (Algorithms 1 and 2), ``spla1``, ``plume``
and ``pc_slp``. Their base is ``estimator``. ``faces_by_programs`` is the base of ``pc_slp`` and of
``polyceptron_exact``, the linear and integer programs of the Polyceptron.

Logistic polytopes, in the order to read: ``logistic_loss``, ``logistic_descent``, ``logistic_newton``,
``logistic_polytopes`` (many starts), ``logistic_estimator``, ``logistic_search`` (model selection).

Certificates: ``lp_certificate`` (Polyceptron, PC-SLP) and ``logistic_certificate`` (all others).
"""
