"""The L0 support vector machine by the cross-entropy method.

Read in this order: ``settings`` (what can be turned), ``search`` (from the relaxation to a local optimum),
``scores`` (patterns in batches, screened by cuts) and ``proof`` (from there to the optimum).
"""
