"""The words in which programs are written, and how one is solved, checked and shown.

Read in this order: ``program`` (the objective, variables, rows and parameters of a program, and its dual),
``solution``, ``solving`` (with ``highs``), ``optimality`` (the KKT conditions); ``notation`` (formulas as
texts), ``consistency`` (the text against the expression), ``typeset`` and ``display``. ``arguments``,
``types`` and ``recovery`` are shared by all families, ``toy_data`` are data for demonstrations.
"""
