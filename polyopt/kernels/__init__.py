"""Kernels, and Gram matrices computed by blocks: the whole matrix is never needed.

Training, prediction and certificates all take their kernel from here, and :meth:`SampleGram.entry_error`
bounds how far its values are from those of real arithmetic. In the order to read:

protocol       what a Gram matrix is asked for, and samples by pieces
function       the named kernels: their numbers, and the last step to their values
operands       samples with the columns appended that make a product the kernel's argument; its errors
panels         columns of a Gram matrix, served by rows
samples        Kernel, and SampleGram: the matrix of samples under a kernel
matrix         MatrixGram: a matrix that is there as a whole
products       a Gram matrix times a vector
semidefinite   refusing what is not positive semidefinite
"""

from polyopt.kernels.matrix import MatrixGram, as_gram
from polyopt.kernels.operands import middle_of
from polyopt.kernels.panels import SamplePanel
from polyopt.kernels.products import outputs_at, square, stream, weighted
from polyopt.kernels.protocol import Gram, Panel, chunks, spread_samples, strips
from polyopt.kernels.samples import Kernel, SampleGram
from polyopt.kernels.semidefinite import require_psd

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
