"""Scores under a kernel as an ONNX graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.matrices import dense

if TYPE_CHECKING:
    from formulations.matrices import Array, Matrix
    from polyopt.graphs import Graph
    from polyopt.kernels import Kernel

__all__ = ["draw_kernel"]


def draw_kernel(graph: Graph, x: str, kernel: Kernel, vectors: Matrix, coef: Array, intercepts: Array) -> str:
    """``Σ_j coef_jk k(x, x_j) + b_k``, a tensor (n, K).

    graph: the graph.
    x: samples (n, m).
    kernel: A kernel with a name.
    vectors (s, m): the support vectors.
    coef (s, K): their coefficients.
    intercepts (K,): the intercepts.
    ValueError: A kernel that is a function.
    """
    name = kernel.name
    if callable(name):
        raise ValueError("a kernel that is a function has no ONNX graph: choose one by its name")
    Z = np.asarray(dense(vectors), dtype=float)
    if not len(Z):  # the graph of no support vectors is constant
        return graph.affine(x, np.zeros((coef.shape[1], Z.shape[1])), intercepts)
    if name == "rbf":
        # About the vectors' middle, so that the squares cancel less.
        middle = Z.mean(axis=0)
        x, Z = graph.op("Sub", x, graph.constant(middle)), Z - middle
        squares = graph.over_columns("ReduceSum", graph.op("Mul", x, x))
        mixed = graph.affine(x, -2.0 * Z, (Z * Z).sum(axis=1))
        distances = graph.op("Max", graph.op("Add", mixed, squares), graph.constant(0.0))
        K = graph.op("Exp", graph.op("Mul", distances, graph.constant(-float(kernel.gamma))))
    else:
        K = _of_products(graph, graph.affine(x, kernel.gamma * Z, np.full(len(Z), kernel.coef0)), kernel)
    return graph.op("Add", graph.op("MatMul", K, graph.constant(coef)), graph.constant(intercepts))


def _of_products(graph: Graph, argument: str, kernel: Any) -> str:
    """The sigmoid or the polynomial kernel of γ z'x + c."""
    if kernel.name == "sigmoid":
        return graph.op("Tanh", argument)
    found = argument
    for _ in range(int(kernel.degree) - 1):
        found = graph.op("Mul", found, argument)
    return found
