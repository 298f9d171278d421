"""Samples as rows, kernels and Gram matrices, products, and arithmetic that bounds its own rounding.

``rows`` gives compiled loops dense and sparse samples alike, and faces as lanes; ``kernels`` makes Gram
matrices by blocks; ``kernel_scores``, ``bounded_scores`` and ``expansion_tiles`` evaluate kernel expansions;
``rounding`` is ball arithmetic.
"""
