"""One of the machines by which a one-vs-one classifier answers, wherever it is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.clock import Clock
from polyopt.estimators.interruption import note_interruption

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.estimators.interruption import Part

__all__ = ["Pair", "fit_pair", "places_of"]


def places_of(pair: tuple[int, int], codes: NDArray[Any]) -> NDArray[np.intp]:
    """The places of the samples that a pair of classes has: those of both, and those without a label.

    pair: the two classes.
    codes (n,): the number of each sample's class; -1 for none.
    """
    return np.flatnonzero((codes == pair[0]) | (codes == pair[1]) | (codes < 0))


class Pair(NamedTuple):
    """One machine to be fitted to two of the classes in data that were checked; the second is +1.

    Attributes
    ----------
    machine : estimator
        The machine.
    X, codes, weights : array
        All samples, the numbers of their classes (-1 for none), and their weights.
    pair : tuple of int
        The two classes.
    part : Part
        Its place in the whole fit.
    """

    machine: Any
    X: Any
    codes: NDArray[Any]
    weights: NDArray[Any]
    pair: tuple[int, int]
    part: Part

    def fit(self) -> Any:
        """The fitted machine. The seconds of the whole fit are shared by the pairs."""
        machine = self.machine
        machine._clear_fit()
        machine._asked = machine.get_params(deep=False)
        places = places_of(self.pair, self.codes)
        machine.classes_ = np.array(self.pair)
        samples = machine._select(self.X, places)
        y = np.where(self.codes[places] == self.pair[1], 1.0, -1.0)
        machine.n_features_in_ = samples.shape[1]
        weights = self.weights[places]
        with self.part.of_fit(machine):
            whole = Clock(getattr(machine, "time_limit", None))
            machine._fit_binary(samples, y, weights, np.arange(len(places)))
            note_interruption(machine)
            machine._calibrate(samples, y, weights, whole)
        vars(machine).pop("_earlier", None)
        return machine


def fit_pair(task: Pair) -> Any:
    """Fit a pair; when all is over, by the solver that is the first to have a point.

    task: the pair.
    Returns: its machine.
    """
    if not task.part.whole.is_over:
        try:
            return task.fit()
        except RuntimeError:
            if not task.part.whole.is_over:
                raise
    machine = task.machine
    if "solver" in machine.get_params(deep=False):
        machine.set_params(solver=machine._at_once())
    return task.fit()
