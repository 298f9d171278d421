"""Polyceptron, SPLA1, PC-SLP, PLUME and logistic polytopes.

One file a method: ``polyceptron_online`` (Algorithms 1 and 2), ``polyceptron_exact``, ``pc_slp``, ``spla1``
and ``plume``; the exact Polyceptron and PC-SLP share ``faces_by_programs``. Logistic polytopes:
``logistic_loss``, then ``logistic_descent``, ``logistic_newton``, ``logistic_polytopes`` (many starts), and
for their search ``logistic_rounds`` and ``logistic_search``. Certificates: ``lp_certificate`` (linear
programs of faces) and ``logistic_certificate``. Estimators last.
"""
