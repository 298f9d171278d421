"""The logistic function of many scores at once, as loops that the processor's vector units can take.

Relative errors are 4e-16 at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.answers import ABOVE
from polyopt.answers.doubles import FAR, exp
from polyopt.compiled import njit

if TYPE_CHECKING:
    from formulations.matrices import Array

__all__ = ["sigmoid", "two_classes"]

_TILE = 256


# Divided as numpy does: a look for a division by 0, which there is not, keeps a loop from the vector units.


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _logistic(scores, slope, n, p):  # type: ignore[no-untyped-def]
    """``p[i] = 1 / (1 + e^-(slope scores[i]))``."""
    for i in range(n):
        z = min(max(slope * scores[i], -FAR), FAR)
        found = 1.0 / (1.0 + exp(-z))
        p[i] = found if scores[i] == scores[i] else scores[i]


@njit(cache=True, nogil=True)
def _sigmoid(scores, out):  # type: ignore[no-untyped-def]
    for begin in range(0, len(scores), _TILE):
        _logistic(scores[begin:], 1.0, min(_TILE, len(scores) - begin), out[begin:])


@njit(cache=True, nogil=True)
def _agree(p, scores, n):  # type: ignore[no-untyped-def]
    """Put probabilities on the side of one half where the label is."""
    for i in range(n):
        high, low = max(p[i], ABOVE), min(p[i], 0.5)
        p[i] = high if scores[i] > 0.0 else low


@njit(cache=True, nogil=True)
def _side_by_side(p, n, out):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[2 * i] = 1.0 - p[i]
        out[2 * i + 1] = p[i]


@njit(cache=True, nogil=True)
def _two_classes(scores, slope, out):  # type: ignore[no-untyped-def]
    p = np.empty(_TILE)
    for begin in range(0, len(scores), _TILE):
        own, n = scores[begin:], min(_TILE, len(scores) - begin)
        _logistic(own, slope, n, p)
        _agree(p, own, n)
        _side_by_side(p, n, out[2 * begin :])


def sigmoid(z: Array) -> Array:
    """``1 / (1 + e^-z)``; of NaN it is NaN.

    Parameters
    ----------
    z : ndarray of shape (n,)
        Numbers.
    """
    found = np.empty(len(z))
    _sigmoid(z, found)
    return found


def two_classes(scores: Array, slope: float) -> Array:
    """Probabilities (n, 2) of the first class and of the second, which is ``1 / (1 + e^-(slope score))``.

    The larger one is that of the label, also where they round: that of the second class is more than one half
    where the score is positive, and else at most one half.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores.
    slope : float
        Log-odds for a unit of the score, positive.
    """
    found = np.empty((len(scores), 2))
    _two_classes(np.ascontiguousarray(scores), slope, found.reshape(-1))
    return found
