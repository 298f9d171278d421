"""Few support vectors: the L0 machine by the cross-entropy method and by branch and bound; the one-norm SVM.

Read in this order: ``certificate`` (bounds from multipliers), ``one_norm`` and ``pattern_lp`` (one linear
program), ``settings``, ``pattern_scores`` (patterns in batches, screened by cuts), ``cross_entropy`` (from
the relaxation to a local optimum), ``integer_program`` and ``tree`` (the optimum), ``proof``, ``estimator``.
"""
