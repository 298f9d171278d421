"""Solutions of other packages, and how far they are from the optimum, proven.

In the order to read: ``programs`` (those that we have), ``answer`` (what a package answered, in our terms),
``libsvm``, ``liblinear`` and ``polytope`` (model files and fitted objects), ``tables`` (coefficients in JSON,
CSV and numpy's files), ``problems`` (cvxpy), ``reading`` (which of them it is), ``settings`` (the program),
``multipliers`` (our own, where none came along) and ``certify``.
"""
