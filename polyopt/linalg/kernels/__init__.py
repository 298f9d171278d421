"""Kernels, and Gram matrices computed by blocks: the whole matrix is never needed.

Training, prediction and certificates all take their kernel from here, and :meth:`SampleGram.entry_error`
bounds how far its values are from those of real arithmetic. In the order to read:

protocol       the protocol of a Gram matrix, and samples by pieces
operands       the named kernels as functions of a matrix product; its errors
panels         columns of a Gram matrix, served by rows; products with a vector
gram           Kernel, SampleGram and MatrixGram
semidefinite   refusing what is not positive semidefinite
"""

from polyopt.linalg.kernels.gram import Kernel, MatrixGram, SampleGram, as_gram
from polyopt.linalg.kernels.operands import middle_of
from polyopt.linalg.kernels.panels import SamplePanel, outputs_at, square, stream, weighted
from polyopt.linalg.kernels.protocol import Gram, Panel, chunks, spread_samples, strips
from polyopt.linalg.kernels.semidefinite import require_psd

__all__ = [
    "Gram",
    "Kernel",
    "MatrixGram",
    "Panel",
    "SampleGram",
    "SamplePanel",
    "as_gram",
    "chunks",
    "middle_of",
    "outputs_at",
    "require_psd",
    "spread_samples",
    "square",
    "stream",
    "strips",
    "weighted",
]
