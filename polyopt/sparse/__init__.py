"""Few support vectors: the L0 machine by the cross-entropy method and by branch and bound; the one-norm SVM.

Read in this order: ``settings``, ``pattern_lp`` (the linear program of a pattern), ``cross_entropy`` (from
the relaxation to a local optimum), ``node_program`` and ``tree`` (branch and bound), ``proof`` (the global
optimum and its claim), ``certificate``, ``estimator``; ``one_norm``.
"""
