"""Kernels, and Gram matrices computed by blocks: the whole matrix is never needed.

Training, prediction and certificates use the same kernel values, and :meth:`SampleGram.entry_error` bounds
their rounding. Read ``panels`` (the protocol; columns served by rows; products), then ``gram`` (the kernels,
the Gram matrix of samples, and the test for semidefiniteness).
"""

from polyopt.linalg.kernels.gram import Kernel, MatrixGram, SampleGram, as_gram, middle_of, require_psd
from polyopt.linalg.kernels.panels import (
    MAX_WHOLE,
    Gram,
    Panel,
    SamplePanel,
    Samples,
    chunks,
    outputs_at,
    spread_samples,
    square,
    stream,
    weighted,
)

__all__ = [
    "MAX_WHOLE", "Gram", "Kernel", "MatrixGram", "Panel", "SampleGram", "SamplePanel", "Samples", "as_gram",
    "chunks", "middle_of", "outputs_at", "require_psd", "spread_samples", "square", "stream", "weighted",
]  # fmt: skip
