"""Samples as rows, kernels and Gram matrices, products, and arithmetic that bounds its own rounding.

``rows`` gives compiled loops dense and sparse samples alike, and faces as lanes; ``kernels`` makes Gram
matrices by blocks; ``kernel_scores`` evaluates kernel expansions; ``sparse_products`` multiplies sparse
samples; ``rounding`` is ball arithmetic.
"""
