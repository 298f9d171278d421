"""What programs are made of, and how one is solved, checked and shown.

Read in this order: ``statement`` (the objective, variables, rows and parameters of a program, all named),
``program`` (a statement that can be solved, and its dual), ``solution``, ``solving`` and ``backends``,
``optimality`` (the KKT conditions); ``notation`` (the
formulas as texts), ``consistency`` (the text against the expression), ``symbols``, ``typeset`` and
``display``. ``arguments``, ``types`` and ``recovery`` are shared by all
families, ``toy_data`` are data for demonstrations.
"""
