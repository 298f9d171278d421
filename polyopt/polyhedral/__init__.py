"""Polyceptron, SPLA1, PC-SLP, PLUME and logistic polytopes.

One file a method, solver and estimator: ``polyceptron`` (Algorithms 1 and 2), ``spla1``, ``plume`` and
``pc_slp``, which shares ``faces_by_programs`` with ``polyceptron_exact``. Logistic polytopes:
``logistic_loss``, then ``logistic_descent``, ``logistic_newton``, ``logistic_polytopes`` (many starts), and
for their search ``logistic_rounds`` and ``logistic_search``. Certificates: ``lp_certificate`` (linear
programs of faces) and ``logistic_certificate``.
"""
