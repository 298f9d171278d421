"""A model's pipeline as an ONNX model: the features of the table's columns, and the machine.

Numbers come in as one matrix ``X``, in the columns' order. If the model reads texts as well, each column is
an input (n, 1) of its own, by its name. A missing number is NaN, and a missing text "".
"""

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.onnx_graph import Graph
from polyopt.base.text import FALSE, TRUE, other_spellings
from polyopt.datasets.preparation import column_texts
from polyopt.models.raw_units import RawUnits

if TYPE_CHECKING:
    from onnx import ModelProto


def to_onnx(model: Any, dtype: str = "float64") -> "ModelProto":
    """Return the whole pipeline as an ONNX model (opset 19) in ``"float64"`` or ``"float32"``.

    The graph of a :class:`~polyopt.models.model.Model` has the outputs of
    :meth:`polyopt.estimators.base.PairwiseClassifier.to_onnx`. ValueError if onnx is not installed, or for a
    step or a machine without a graph.
    """
    machine = model.estimator
    if not hasattr(machine, "draw"):
        raise ValueError(f"{type(machine).__name__} has no ONNX graph")
    graph = Graph(dtype)
    try:
        raw: RawUnits = model.raw_units
    except ValueError as error:
        raise ValueError(f"the model has no ONNX graph: {error}") from None
    x = _values(graph, raw, _text_columns(model))
    centre, scale = raw.scaling
    if centre.any():
        x = graph.op("Sub", x, graph.constant(centre))
    if (scale != 1.0).any():
        x = graph.op("Div", x, graph.constant(scale))
    about = {"method": model.method, "machine": type(machine).__name__, "features": "\n".join(raw.columns)}
    return graph.model(machine.draw(graph, x), about)


def _text_columns(model: Any) -> set[int]:
    """Return the places of the columns whose categories are texts."""
    first: Any = model.steps[0][1] if model.steps else None
    if type(first).__name__ != "OneHotEncoder":
        return set(column_texts(model.preparation))
    return {j for j, known in enumerate(first.categories_) if any(isinstance(text, str) for text in known)}


def _values(graph: Graph, raw: RawUnits, texts: set[int]) -> str:
    """Add the values (n, m) of the features before scaling, from the inputs of the columns."""
    numbers = range(len(raw.columns))
    if not texts:
        X = graph.input("X", len(numbers))
        if [(f.column, f.is_number) for f in raw.features] == [(j, True) for j in numbers]:  # X itself
            fills = [np.nan if fill is None else float(fill) for fill in raw.fills]
            return _filled(graph, X, None if np.isnan(fills).all() else np.array(fills))
        columns = [graph.op("Gather", X, graph.constant(np.array([j])), axis=1) for j in numbers]
    else:
        columns = [graph.input(name, 1, text=j in texts) for j, name in enumerate(raw.columns)]
    parts: list[str] = []
    for (j, is_indicator), group in groupby(raw.features, lambda f: (f.column, f.text is not None)):
        fill = None if raw.fills[j] is None else np.array([raw.fills[j]])
        if is_indicator:
            column = _filled(graph, columns[j], fill, j in texts)
            parts.append(_indicators(graph, column, [str(f.text) for f in group], j in texts))
            continue
        for f in group:
            if f.is_gap:
                is_gap = _is_missing(graph, columns[j], j in texts)
                parts.append(graph.number(is_gap))
            elif f.knot is None:
                parts.append(_filled(graph, columns[j], fill))
            else:
                above = graph.op("Sub", _filled(graph, columns[j], fill), graph.constant(f.knot))
                parts.append(graph.op("Max", above, graph.constant(0.0)))
    return parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)


def _is_missing(graph: Graph, x: str, is_text: bool = False) -> str:
    return graph.op("Equal", x, graph.constant(np.array([""]))) if is_text else graph.op("IsNaN", x)


def _filled(graph: Graph, x: str, fill: Any, is_text: bool = False) -> str:
    """Add x with its missing values filled; `fill` has a value for each column, or is None."""
    return x if fill is None else graph.op("Where", _is_missing(graph, x, is_text), graph.constant(fill), x)


def _indicators(graph: Graph, column: str, texts: list[str], is_text: bool) -> str:
    """Add a column for each of the texts, 1 if it is the sample's; a text of no fit has none."""
    if is_text:
        return graph.indicators(column, texts, other_spellings(texts))
    numbers = [float(text in TRUE) if text in (*TRUE, *FALSE) else float(text) for text in texts]
    if len(set(np.array(numbers, dtype=graph.dtype).tolist())) < len(numbers):
        raise ValueError("two categories of the model are one number in float32: export it as float64")
    return graph.number(graph.op("Equal", column, graph.constant(np.array([numbers]))))
