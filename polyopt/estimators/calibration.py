"""From the scores of held-out samples to probabilities: Platt's sigmoid, or an isotonic curve.

Both are scikit-learn's. A score's zero is moved to where both classes are as probable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Array
    from polyopt.graphs import Graph

__all__ = [
    "METHODS",
    "Calibration",
    "CalibrationMethod",
    "Units",
    "agreeing",
    "calibrate",
    "curve_of",
    "draw_agreeing",
    "flat_nodes",
    "line_of",
    "targets_of",
]

CalibrationMethod: TypeAlias = Literal["sigmoid", "isotonic"]
METHODS = ("sigmoid", "isotonic")

_SPREAD = 1e-12  # of the scores' size: less between them is rounding
_SLOPE = 1e-6  # of the log-odds, for one standard deviation of the scores: less says nothing
_BEYOND = 1e-6  # standard deviations of the scores
_ABOVE = math.nextafter(0.5, 1.0)  # the least probability of a class, of two, that is the more probable


@dataclass(frozen=True, eq=False)
class Calibration:
    """The probability of ``classes_[1]`` as a function of the score.

    Attributes
    ----------
    method : {"sigmoid", "isotonic"}
        The curve.
    n_folds : int
        Parts of the training data that were held out, one after the other.
    shift : float
        The score of the program's own point at which both classes are as probable. It is taken from all
        scores, so that their zero is there.
    slope : float
        Log-odds for a unit of the score ("sigmoid"); 0 where `nodes` are the curve.
    nodes : ndarray of shape (2, r)
        Scores, less the shift, and probabilities, linear in between ("isotonic"). Two of one probability,
        that of all samples, where the scores of held-out samples say nothing of the classes.
    """

    method: CalibrationMethod
    n_folds: int
    shift: float
    slope: float
    nodes: Array

    @property
    def is_flat(self) -> bool:
        """Whether the scores say nothing."""
        return self.nodes.shape[1] > 0 and bool(self.nodes[1, 0] == self.nodes[1, -1])

    def probability(self, scores: Array) -> Array:
        """Probabilities (t,) of ``classes_[1]``.

        Parameters
        ----------
        scores : ndarray of shape (t,)
            Scores less the shift, as a calibrated machine's are.
        """
        if self.slope:
            return np.asarray(expit(self.slope * scores))
        return np.interp(scores, *self.nodes)

    def draw(self, graph: Graph, scores: str) -> str:
        """The same for (n, 1) as an ONNX graph.

        Parameters
        ----------
        graph : Graph
            The graph.
        scores : str
            Scores less the shift.
        """
        if self.slope:
            return graph.op("Sigmoid", graph.op("Mul", scores, graph.constant(self.slope)))
        (x, p), rises = self.nodes, np.diff(self.nodes)
        low, high = graph.constant(x[:-1]), graph.constant(x[1:])
        # How much of each piece the score is past, times what the piece rises.
        within = graph.op("Min", graph.op("Max", scores, low), high)
        past = graph.op("Div", graph.op("Sub", within, low), graph.constant(rises[0]))
        risen = graph.op("MatMul", past, graph.constant(rises[1][:, None]))
        return graph.op("Add", risen, graph.constant(float(p[0])))


def agreeing(second: Array, is_second: NDArray[np.bool_]) -> Array:
    """Probabilities (t,) of the second class that agree with the labels, also at ties and where they round.

    Of two equal probabilities the first is the larger one to ``argmax``; a polytope's boundary may be the
    second's. Where labels and probabilities are of one score that changes the last digit at most, but beyond
    the scores that an isotonic curve knows.

    Parameters
    ----------
    second : ndarray of shape (t,)
        Probabilities of the second class.
    is_second : ndarray of bool, shape (t,)
        Which samples are of that class.
    """
    return np.where(is_second, np.maximum(second, _ABOVE), np.minimum(second, 0.5))


def draw_agreeing(graph: Graph, second: str, is_second: str) -> str:
    """:func:`agreeing` as an ONNX graph.

    Parameters
    ----------
    graph : Graph
        The graph.
    second, is_second : str
        Its arguments, (n, 1).
    """
    above = graph.op("Max", second, graph.constant(_ABOVE))
    return graph.op("Where", is_second, above, graph.op("Min", second, graph.constant(0.5)))


def calibrate(
    scores: Array, is_second: NDArray[np.bool_], weights: Array, method: CalibrationMethod, n_folds: int
) -> Calibration:
    """Fit the curve to the scores of held-out samples.

    Targets are Platt's [1]_, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2) with the classes' weights for n₊ and n₋, for
    the isotonic curve as well: so no probability is 0 or 1. The curve may not fall: where a sigmoid would, it
    is flat. Where a curve does not pass one half within the scores, it is taken to do so right beyond them.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores by machines that were not fitted to these samples.
    is_second : ndarray of bool, shape (n,)
        Which are of the second class; some are and some are not.
    weights : ndarray of shape (n,)
        Weights of the samples.
    method : {"sigmoid", "isotonic"}
        The curve.
    n_folds : int
        For the record.

    References
    ----------
    .. [1] Platt, Probabilistic Outputs for Support Vector Machines, 1999.
    """
    size = float(np.abs(scores).max())
    unit = scores / size if size else scores
    centre = float(np.average(unit, weights=weights))
    units = Units(size, centre, float(np.sqrt(np.average((unit - centre) ** 2, weights=weights))))
    z = units.told_in(scores)
    line = _sigmoid(z, is_second, weights) if method == "sigmoid" else None
    curve = _isotonic(z, is_second, weights, is_flat=method == "sigmoid") if line is None else line
    return curve_of(curve, units, method, n_folds)


class Units(NamedTuple):
    """Scores' own units, in which the fit of a curve does not depend on those of the scores.

    Attributes
    ----------
    size : float
        The largest score there is, whatever its sign.
    centre, deviation : float
        Mean and standard deviation of the scores over that size.
    """

    size: float
    centre: float
    deviation: float

    @property
    def spread(self) -> float:
        """The standard deviation, or 1 where it is rounding."""
        return self.deviation if self.deviation > _SPREAD else 1.0

    def told_in(self, scores: Array) -> Array:
        """Scores (t,) in these units.

        Parameters
        ----------
        scores : ndarray of shape (t,)
            Scores.
        """
        return ((scores / self.size if self.size else scores) - self.centre) / self.spread


def curve_of(
    curve: tuple[float, float] | Array, units: Units, method: CalibrationMethod, n_folds: int
) -> Calibration:
    """The calibration of a curve that was fitted in the scores' own units.

    Parameters
    ----------
    curve : tuple of float or ndarray of shape (2, r)
        Where a sigmoid is one half, and its slope; or the nodes of a curve.
    units : Units
        The units.
    method, n_folds
        As of :func:`calibrate`.
    """
    size, centre, spread = units.size, units.centre, units.spread
    if isinstance(curve, tuple):
        zero, slope, nodes = *curve, np.empty((2, 0))
    else:
        nodes, slope = curve, 0.0
        zero = _zero_of(nodes[0], nodes[1], -centre / spread)
    nodes[0] = (nodes[0] - zero) * spread * size
    shift = (centre + spread * zero) * size
    return Calibration(method, n_folds, shift, slope and slope / spread / size, nodes)


def targets_of(of_first: float, of_second: float) -> tuple[float, float]:
    """Platt's targets of samples of the first and of the second class.

    Parameters
    ----------
    of_first, of_second : float
        The weights of the classes.
    """
    return 1.0 / (of_first + 2.0), (of_second + 1.0) / (of_second + 2.0)


def line_of(offset: float, slope: float) -> tuple[float, float] | None:
    """Where log-odds of ``offset + slope z`` are 0, and the slope; None where they do not rise.

    Parameters
    ----------
    offset, slope : float
        In the scores' own units.
    """
    return (-offset / slope, slope) if slope > _SLOPE else None


def flat_nodes(low: float, high: float, share: float) -> Array:
    """The nodes (2, 2) of the flat curve.

    Parameters
    ----------
    low, high : float
        The least score and the largest, in their own units.
    share : float
        The probability of the second class.
    """
    return np.array([[low, max(high, np.nextafter(low, np.inf))], [share, share]])


def _sigmoid(z: Array, is_second: NDArray[np.bool_], weights: Array) -> tuple[float, float] | None:
    """Where the probability is one half, and the slope of the log-odds; None where that would not rise."""
    if z.max() == z.min():
        return None
    fitted = _SigmoidCalibration().fit(z, is_second.astype(float), weights)
    return line_of(-float(fitted.b_), -float(fitted.a_))


def _isotonic(z: Array, is_second: NDArray[np.bool_], weights: Array, *, is_flat: bool) -> Array:
    """Nodes (2, r) of the isotonic curve, or of the flat one."""
    first, second = targets_of(float(weights[~is_second].sum()), float(weights[is_second].sum()))
    targets = np.where(is_second, second, first)
    if not is_flat and z.max() > z.min():
        fitted = IsotonicRegression(out_of_bounds="clip").fit(z, targets, sample_weight=weights)
        x, p = (np.asarray(one, dtype=float) for one in (fitted.X_thresholds_, fitted.y_thresholds_))
        if len(x) > 1 and p[-1] > p[0]:
            return np.vstack([x, p])
    return flat_nodes(z.min(), z.max(), float(np.average(targets, weights=weights)))


def _zero_of(x: Array, p: Array, own: float) -> float:
    """Where a rising curve through the nodes is one half: the point nearest to `own`, of several."""
    if p[-1] < 0.5:
        return max(float(x[-1]) + _BEYOND, own)
    if p[0] > 0.5:
        return min(float(x[0]) - _BEYOND, own)
    return float(np.clip(own, _first_at_half(x, p), -_first_at_half(-x[::-1], 1.0 - p[::-1])))


def _first_at_half(x: Array, p: Array) -> float:
    """The least x at which a rising curve through the nodes is one half or more; -inf where it always is."""
    k = int(np.argmax(p >= 0.5))
    if k == 0:
        return -np.inf
    share = (0.5 - p[k - 1]) / (p[k] - p[k - 1])
    return float(x[k - 1] + share * (x[k] - x[k - 1]))
