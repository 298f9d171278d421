"""A classifier outside of the fit: without its training data, and as an ONNX graph."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polyopt.estimators.proven import Proven

if TYPE_CHECKING:
    from onnx import ModelProto

    from polyopt.graphs import Graph

__all__ = ["Portable"]


class Portable(Proven):
    """Base of the classifiers: what they are without their training data, and for other programs.

    A subclass says in :meth:`_drop_data` what it answers by; one that does not keeps all it has. It says in
    :meth:`_draw_scores` how its scores are computed; one that does not has no ONNX graph.
    """

    n_features_in_: int

    # -- without the data --------------------------------------------------------------------

    def without_data(self) -> Self:
        """A copy that predicts, and has its faces or its support vectors, but holds no other training data.

        It cannot be certified and has no ``duals_``. For files, and for machines that only predict.
        """
        check_is_fitted(self)
        light = copy(self)
        if self._is_binary:
            light._drop_data(self)
            return light
        light.estimators_ = [part.without_data() for part in self.estimators_]
        light._drop_data_of_pairs(self)
        light.solution_ = [part.solution_ for part in light.estimators_]
        return light

    def _drop_data(self, whole: Self) -> None:
        """Keep of a binary machine, of which this is a copy, what it answers by."""

    def _drop_data_of_pairs(self, whole: Self) -> None:
        """The same for what a machine of pairs of classes has beside its pairs, which are light already."""

    def _keep_no_solution(self, whole: Self) -> None:
        """Keep of the whole machine's solution how it ended, without its vectors and its history."""
        self.solution_: Any = replace(whole.solution_, primal={}, duals={}, history=(), runs=())

    # -- for other programs ------------------------------------------------------------------

    def to_onnx(self) -> ModelProto:
        """The fitted machine as an ONNX model, in double precision (opset 19).

        It takes ``X`` (n, m), double, and gives ``label`` (n,) and ``scores``: (n,) of two classes, (n,
        n_classes) of more, as ``predict`` and ``decision_function`` do; and ``probabilities`` (n, n_classes),
        as ``predict_proba``, where the model has them. A pipeline is exported by
        :class:`polyopt.models.Model`.

        Raises
        ------
        ValueError
            Where the package onnx is not installed, or for a machine that has no such graph: with a kernel
            that is a function or a Gram matrix, or with ties that are broken at random.
        """
        from polyopt.graphs import Graph

        check_is_fitted(self)
        graph = Graph()
        outputs = self.draw(graph, graph.input("X", int(self.n_features_in_)))
        return graph.model(outputs, {"machine": type(self).__name__})

    def draw(self, graph: Graph, x: str) -> dict[str, tuple[str, str, int | None]]:
        """Draw the machine into a graph, and name its outputs ``label``, ``scores`` and ``probabilities``.

        Parameters
        ----------
        graph : Graph
            A graph.
        x : str
            Its tensor of the features that this machine sees.
        """
        machine = self._as_fitted().without_data()
        n_classes = len(machine.classes_)
        if machine._is_binary:
            scores, is_second, second = machine._draw_two(graph, x)
            number = graph.op("Cast", is_second, to=7)  # int64
            flat = graph.constant(np.array([-1]))
            scores, number = graph.op("Reshape", scores, flat), graph.op("Reshape", number, flat)
            if second is not None:
                first = graph.op("Sub", graph.constant(1.0), second)
                second = graph.op("Concat", first, second, axis=1)
            probabilities = second
        else:
            scores, number, probabilities = machine._draw_many(graph, x)
        kinds = {"i": "int64", "u": "int64", "f": "double", "b": "bool"}
        kind = kinds.get(machine.classes_.dtype.kind, "string")
        outputs = {
            "label": (graph.op("Gather", graph.constant(machine.classes_), number), kind, None),
            "scores": (scores, "double", None if machine._is_binary else n_classes),
        }
        if probabilities is not None:
            outputs["probabilities"] = (probabilities, "double", n_classes)
        return outputs

    def _draw_two(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        """Of two classes: scores, whether they are of the second, and its probability; each (n, 1)."""
        scores = self._draw_scores(graph, x)
        return scores, self._draw_second(graph, scores), None

    def _draw_many(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        """Of more classes: their scores (n, n_classes), the answer's number (n,), and their probabilities."""
        scores = self._draw_votes(graph, self._draw_pairs(graph, x))
        return scores, graph.op("ArgMax", scores, axis=1, keepdims=0), None

    def _draw_scores(self, graph: Graph, x: str) -> str:
        """Scores (n, 1) of a binary machine."""
        raise ValueError(f"{type(self).__name__} has no ONNX graph")

    def _draw_pairs(self, graph: Graph, x: str) -> str:
        """Scores (n, pairs) of the pairs of classes."""
        parts = [part._as_fitted()._draw_scores(graph, x) for part in self.estimators_]
        return graph.op("Concat", *parts, axis=1)

    def _draw_second(self, graph: Graph, scores: str) -> str:
        """Whether scores are of the second class."""
        return graph.op("Greater", scores, graph.constant(0.0))

    def _draw_votes(self, graph: Graph, scores: str) -> str:
        """Scores of the classes: votes of the pairs, and less than a third of one by the sum of scores."""
        first, second = self._sides_of_pairs()
        won = graph.op("Cast", self._draw_second(graph, scores), to=11)  # double
        votes = graph.op("MatMul", won, graph.constant(second - first))
        votes = graph.op("Add", votes, graph.constant(first.sum(axis=0)))
        total = graph.op("MatMul", scores, graph.constant(second - first))
        size = graph.op("Add", graph.op("Abs", total), graph.constant(1.0))
        share = graph.op("Div", total, graph.op("Mul", graph.constant(3.0), size))
        return graph.op("Add", votes, share)

    def _sides_of_pairs(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The first and the second class of each pair, as rows of an identity."""
        pairs = np.array(list(combinations(range(len(self.classes_)), 2)))
        each = np.eye(len(self.classes_))
        return each[pairs[:, 0]], each[pairs[:, 1]]
