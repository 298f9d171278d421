"""The inner solvers of the SVM with the hard-margin loss.

Read in this order: ``climb`` (the hard-margin SVM of some samples, or proof that there is none within a
limit), ``meeting`` (what such a climb says of a problem), ``cuts`` (sets of samples that cannot all be met),
``master`` (the linear program over which samples are given up), ``tree`` (branch and bound over it) and
``point`` (where a search ends).
"""
