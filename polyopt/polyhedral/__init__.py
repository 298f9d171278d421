"""Polyceptron, SPLA1, PC-SLP, PLUME and logistic polytopes.

Each method has a module of its name with the algorithm, one that ends in ``_estimator`` and one that ends in
``_certificate``. Shared: ``faces_by_programs`` (linear programs of faces), ``lp_certificate``, ``estimator``.
"""
