"""Certificates as files that a stranger can check; ``polyopt/check/FORMAT.md`` describes their content.

In the order to read: ``statement`` (a program, a point and multipliers), ``file`` (makes both feasible in
rational arithmetic, and writes them), ``active_set`` (solves the KKT conditions exactly) and ``refine``
(exact and refined optima of certified points).
"""
