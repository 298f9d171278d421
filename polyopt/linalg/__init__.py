"""Samples as rows, kernels and Gram matrices, products, and arithmetic that bounds its own rounding.

``rows`` and ``face_products`` give compiled loops dense and sparse samples alike; ``kernels`` makes Gram
matrices by blocks; ``kernel_scores`` evaluates kernel expansions, ``sparse_products`` multiplies sparse
samples; ``rounding`` is ball arithmetic.
"""
