"""The L0 support vector machine by the cross-entropy method.

Read in this order: ``search`` (from the relaxation to a local optimum), ``scores`` (patterns in batches,
screened by cuts) and ``flips`` (the descent at the end).
"""
