"""Samples as rows, kernels and Gram matrices, products, and arithmetic that bounds its own rounding.

``rows`` and ``face_products`` give compiled loops dense and sparse samples alike; ``kernels`` makes Gram
matrices by blocks; ``kernel_scores``, ``bounded_scores`` and ``expansion_tiles`` evaluate kernel expansions;
``rounding`` is ball arithmetic.
"""
