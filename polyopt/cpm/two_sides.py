"""Two polytopes, one around each class, that decide by the difference of their scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from formulations.language.clock import Clock
from polyopt.base.parallel import deal
from polyopt.certificates.certificate import combine
from polyopt.estimators.interruption import Part
from polyopt.estimators.stream import StreamedClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from formulations.language.types import Array
    from polyopt.base.onnx_graph import Graph
    from polyopt.certificates.certificate import Certificate

__all__ = ["TwoSidedClassifier"]


class TwoSidedClassifier(StreamedClassifier):
    """Base of a classifier with the parameter ``double_sided``.

    A subclass learns one polytope in :meth:`_fit_side`; what is asked of two is put together here.
    """

    double_sided: bool
    n_jobs: int | None
    time_limit: float | None
    _sides: tuple[Self, ...] | None = None

    @abstractmethod
    def _fit_side(self, X: Any, y: Array, weights: Array, rows: NDArray[np.int64], side: float) -> None:
        """Learn one polytope: ``classes_[1]`` is outside for side +1, ``classes_[0]`` for -1."""

    @abstractmethod
    def _side_certificate(self, tol: float) -> Certificate:
        """The certificate of one polytope."""

    @abstractmethod
    def _side_duals(self) -> pd.DataFrame:
        """The multipliers of one polytope."""

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.int64]) -> None:
        if not self.double_sided:
            self._fit_side(X, y, weights, rows, self._chosen_side())
            return
        machines = [self._one_sided() for _ in range(2)]
        whole = Clock(self.time_limit)
        tasks = [
            _Side(machine, X, y, weights, rows, side, Part("side", number, 2, whole, self.n_jobs))
            for number, (machine, side) in enumerate(zip(machines, (1.0, -1.0), strict=True))
        ]
        self._take_sides(deal(_fit_of_side, tasks, self.n_jobs, "side"))

    def _one_sided(self) -> Self:
        """A machine for one side of two, with what this one knows of the labels."""
        machine = clone(self).set_params(double_sided=False, class_weight=None, n_jobs=None, calibration=None)
        machine.classes_, machine.n_features_in_ = self.classes_, self.n_features_in_
        machine._asked = machine.get_params(deep=False)
        names = getattr(self, "feature_names_in_", None)  # which scikit-learn sets where there are names
        if names is not None:
            machine.feature_names_in_ = names
        return machine

    def _take_sides(self, machines: Sequence[Self]) -> None:
        self._sides, self._side = tuple(machines), 1.0
        self.solver_ = machines[0].solver_
        self.solution_ = [machine.solution_ for machine in machines]
        self.n_iter_ = max(machine.n_iter_ for machine in machines)

    def _forget(self) -> None:
        super()._forget()
        self._sides = None

    def _keep_no_solution(self, whole: Self) -> None:
        if whole._sides is None:
            super()._keep_no_solution(whole)
        else:
            self._take_sides([machine.without_data() for machine in whole._sides])

    @property
    def holds_data(self) -> bool:
        """Whether it holds its training data, of which certificates and multipliers are made."""
        if self._sides is not None:
            return all(machine.holds_data for machine in self._sides)
        return super().holds_data

    @property
    def sides_(self) -> tuple[Self, ...]:
        """The machine with ``classes_[1]`` outside, and the one with ``classes_[0]`` (``double_sided``)."""
        if self._sides is None:
            raise AttributeError("sides_ is of a machine with double_sided=True and two classes")
        return self._sides

    @property
    def _is_one_polytope(self) -> bool:
        return self._is_binary and self._sides is None

    def _binary_scores(self, X: Any) -> Array:
        if self._sides is None:
            return super()._binary_scores(X)
        minus, plus = self._sides
        return minus._binary_scores(X) + plus._binary_scores(X)

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self._sides is None:
            return super()._draw_scores(graph, x)
        return graph.op("Sum", *(machine._draw_scores(graph, x) for machine in self._sides))

    def _binary_certificate(self, tol: float) -> Certificate:
        if self._sides is None:
            return self._side_certificate(tol)
        names = [f"{machine.outer_label_} outside" for machine in self._sides]
        return combine([machine.certificate(tol) for machine in self._sides], names, "sides")

    def _binary_duals(self) -> pd.DataFrame:
        if self._sides is None:
            return self._side_duals()
        return self._of_sides([machine.duals_ for machine in self._sides])

    def _binary_history(self) -> pd.DataFrame:
        if self._sides is None:
            return super()._binary_history()
        return self._of_sides([machine.history_ for machine in self._sides], last=True)

    def _of_sides(self, frames: Sequence[pd.DataFrame], last: bool = False) -> pd.DataFrame:
        """The frames below one another, with the class outside as their first or last column."""
        import pandas as pd

        for machine, frame in zip(self.sides_, frames, strict=True):
            frame.insert(len(frame.columns) if last else 0, "outside", machine.outer_label_)
        return pd.concat(frames, ignore_index=True)


class _Side(NamedTuple):
    """One machine, and what it is fitted to."""

    machine: TwoSidedClassifier
    X: Any
    y: Array
    weights: Array
    rows: NDArray[np.int64]
    side: float
    part: Part


def _fit_of_side(task: _Side) -> TwoSidedClassifier:
    """Fit one side; the seconds of both are shared."""
    machine = task.machine
    with task.part.of_fit(machine):
        machine._fit_side(task.X, task.y, task.weights, task.rows, task.side)
    return machine
