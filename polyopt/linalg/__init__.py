"""Linear algebra of samples: data formats of the C kernels, Gram matrices, products, rounding error bounds.

``rows`` lays out samples and faces for compiled loops; ``kernels`` computes Gram matrices by blocks, and
``kernel_scores`` kernel expansions; ``sparse_products`` multiplies sparse samples; ``rounding`` is ball
arithmetic; ``span`` removes weights that samples do not determine; ``used_features`` drops empty columns.
"""
