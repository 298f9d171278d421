"""A model's pipeline as an ONNX model: scikit-learn's steps before the machine, and the machine itself.

Numbers come in as one matrix ``X``, in the columns' order. Where the model reads text as well, each column is
an input of its own, (n, 1), by its name. A missing number is NaN, and a missing text "".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.onnx_graph import Graph
from polyopt.datasets.preparation import column_texts, parts_of
from polyopt.polytope.spellings import other_spellings

if TYPE_CHECKING:
    from onnx import ModelProto

Columns = list[str]
"""Tensors (n, 1), one for each column."""


def to_onnx(model: Any) -> ModelProto:
    """The whole pipeline as an ONNX model in double precision (opset 19).

    The graph of a :class:`~polyopt.models.model.Model` has the outputs ``label`` (n,) and ``scores``, (n,) or
    (n, n_classes). ValueError if onnx is not installed, or for a step or a machine without a graph.
    """
    machine = model.estimator
    if not hasattr(machine, "draw"):
        raise ValueError(f"{type(machine).__name__} has no ONNX graph")
    graph, m = Graph(), model.n_features
    names = model.feature_names or [f"x{j}" for j in range(m)]
    texts = _text_columns(model)
    if not texts:
        x = graph.input("X", m)
        for _, step in model.steps:
            x = _draw_step(graph, x, step)
    else:
        columns = [graph.input(name, 1, text=j in texts) for j, name in enumerate(names)]
        (_, first), *rest = model.steps
        x = _joined(graph, _draw_columns(graph, columns, first))
        for _, step in rest:
            x = _draw_step(graph, x, step)
    about = {"method": model.method, "machine": type(machine).__name__, "features": "\n".join(names)}
    return graph.model(machine.draw(graph, x), about)


# -- matrices of numbers -----------------------------------------------------------------------------


def _draw_step(graph: Graph, x: str, step: Any) -> str:
    """One step of numbers to numbers."""
    kind = type(step).__name__
    if kind == "ColumnTransformer":
        m = int(step.n_features_in_)
        columns = [graph.op("Gather", x, graph.constant(np.array([j])), axis=1) for j in range(m)]
        return _joined(graph, _draw_columns(graph, columns, step))
    if kind not in _STEPS:
        raise ValueError(f"the step {kind} has no ONNX graph here; there is one of {', '.join(_STEPS)}")
    return _STEPS[kind](graph, x, step)


def _draw_scaler(graph: Graph, x: str, step: Any) -> str:
    """(x - shift) / scale."""
    shift = getattr(step, "mean_", getattr(step, "center_", None))
    if shift is not None and getattr(step, "with_mean", True):
        x = graph.op("Sub", x, graph.constant(shift))
    return x if step.scale_ is None else graph.op("Div", x, graph.constant(step.scale_))


def _draw_min_max(graph: Graph, x: str, step: Any) -> str:
    x = graph.op("Add", graph.op("Mul", x, graph.constant(step.scale_)), graph.constant(step.min_))
    if not step.clip:
        return x
    low, high = (graph.constant(float(end)) for end in step.feature_range)
    return graph.op("Min", graph.op("Max", x, low), high)


def _draw_imputer(graph: Graph, x: str, step: Any) -> str:
    statistics = np.asarray(step.statistics_, dtype=float)
    if step.add_indicator or not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise ValueError("SimpleImputer has an ONNX graph here for NaN alone, and without add_indicator")
    if np.isnan(statistics).any():
        raise ValueError("SimpleImputer leaves out columns without any value, and has no ONNX graph then")
    return graph.op("Where", graph.op("IsNaN", x), graph.constant(statistics), x)


_STEPS: Mapping[str, Callable[[Graph, str, Any], str]] = {
    "StandardScaler": _draw_scaler,
    "MinMaxScaler": _draw_min_max,
    "MaxAbsScaler": _draw_scaler,
    "RobustScaler": _draw_scaler,
    "SimpleImputer": _draw_imputer,
}


# -- columns, of text as well ------------------------------------------------------------------------


def _joined(graph: Graph, columns: Columns) -> str:
    return columns[0] if len(columns) == 1 else graph.op("Concat", *columns, axis=1)


def _text_columns(model: Any) -> set[int]:
    """Places of the columns whose categories are texts."""
    first: Any = model.steps[0][1] if model.steps else None
    if type(first).__name__ == "ColumnTransformer":
        return set(column_texts(first))
    categories = first.categories_ if type(first).__name__ == "OneHotEncoder" else []
    return {j for j, of in enumerate(categories) if _are_texts(of)}


def _are_texts(categories: Any) -> bool:
    return any(isinstance(one, str) for one in categories)


def _draw_columns(graph: Graph, columns: Columns, step: Any) -> Columns:
    """One step of columns to columns."""
    kind = type(step).__name__
    if kind == "ColumnTransformer":
        made: Columns = []
        for _, part, places in parts_of(step):
            own = [columns[place] for place in places]
            is_kept = isinstance(part, str) or type(part).__name__ == "FunctionTransformer"
            made += own if is_kept and _is_identity(part) else _draw_columns(graph, own, part)
        return made
    if kind == "Pipeline":
        for _, each in step.steps:
            columns = _draw_columns(graph, columns, each)
        return columns
    if kind == "OneHotEncoder":
        return _draw_indicators(graph, columns, step)
    if kind == "SimpleImputer" and any(isinstance(one, str) for one in step.statistics_):
        empty = graph.constant(np.array([""]))
        return [
            graph.op("Where", graph.op("Equal", column, empty), graph.constant(np.array([str(fill)])), column)
            for column, fill in zip(columns, step.statistics_, strict=True)
        ]
    return [_draw_step(graph, _joined(graph, columns), step)]


def _is_identity(part: Any) -> bool:
    """True if a part leaves its columns as they are: "passthrough", or its fitted form."""
    return part == "passthrough" or getattr(part, "func", 0) is None


def _draw_indicators(graph: Graph, columns: Columns, step: Any) -> Columns:
    """One column for each category, 1 where it is the sample's; a new text has none."""
    if step.drop is not None or getattr(step, "_infrequent_enabled", False):
        raise ValueError("OneHotEncoder has an ONNX graph here without drop and without rare categories")
    made = []
    for column, categories in zip(columns, step.categories_, strict=True):
        if _are_texts(categories):
            texts = [str(one) for one in categories]
            made.append(graph.indicators(column, texts, other_spellings(texts)))
        else:
            values = np.array([float(one) for one in categories])
            same = graph.op("Equal", column, graph.constant(values[None, :]))
            made.append(graph.op("Cast", same, to=11))  # double
    return made
