"""Kernels, and Gram matrices computed by blocks: the whole matrix is never needed.

Training, prediction and certificates use the same kernel values, and :meth:`SampleGram.entry_error` bounds
their rounding. Read ``panels`` (the protocol; column panels, served by rows; products), then ``gram`` (the
kernels, the Gram matrix of samples, and the test for semidefiniteness).
"""

from polyopt.linalg.kernels.gram import Kernel, MatrixGram, SampleGram, as_gram, middle_of, require_psd
from polyopt.linalg.kernels.panels import (
    MAX_SQUARE_ROWS,
    Gram,
    Panel,
    SamplePanel,
    Samples,
    chunks,
    gram_matvec,
    outputs_at,
    panel_matvec,
    spread_samples,
    submatrix,
)

__all__ = [
    "MAX_SQUARE_ROWS", "Gram", "Kernel", "MatrixGram", "Panel", "SampleGram", "SamplePanel", "Samples",
    "as_gram", "chunks", "gram_matvec", "middle_of", "outputs_at", "panel_matvec", "require_psd",
    "spread_samples", "submatrix",
]  # fmt: skip
