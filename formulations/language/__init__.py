"""The language of programs: stating, solving, checking and printing them.

Read in this order: ``statement`` (the objective, variables, rows and parameters of a program), ``program``
(a statement that can be solved, and its dual), ``solution``, ``solving`` (with ``highs`` and ``clock``) and
``optimality`` (the KKT conditions); ``notation`` (formulas as texts), ``consistency`` (the text against the
expression), ``typeset`` and ``display``. ``arguments``, ``types`` and ``recovery`` are shared by all
families, ``toy_data`` has data for examples.
"""
