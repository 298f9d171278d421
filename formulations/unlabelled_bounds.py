"""Unlabelled samples after the labelled ones: their rows, families and multipliers.

For the programs of :mod:`formulations.rmm_bounded`, the solvers and the certificates, without cvxpy. An
unlabelled sample has bounds on its output, and no margin.
"""

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from formulations.families import Families, bounded_families
from formulations.language.arguments import at_least
from formulations.language.recovery import as_costs, as_data, as_labels
from formulations.language.types import Matrix, MatrixLike, Vector, is_sparse


def append(X: Matrix, U: Matrix) -> Matrix:
    """Stack the rows of X and U; CSR if one of them is."""
    if is_sparse(X) or is_sparse(U):
        return sp.csr_array(sp.vstack([sp.csr_array(X), sp.csr_array(U)]))
    return np.vstack([X, U])


def stacked(X: MatrixLike, y: ArrayLike, U: MatrixLike) -> tuple[Matrix, Vector]:
    """Check and stack the labelled and the unlabelled samples, (n + k, m); return them and the labels."""
    X, y = as_data(X, y)
    rows = np.shape(U)[0] if np.ndim(U) or is_sparse(U) else 0
    try:
        U, _ = as_data(U, np.ones(rows))
    except ValueError as error:
        raise ValueError(f"the further samples: {error}") from error
    if U.shape[1] != X.shape[1]:
        raise ValueError(f"the further samples must have the {X.shape[1]} features of X, not {U.shape[1]}")
    return append(X, U), y


def families(
    y: ArrayLike, further: int, C: ArrayLike, B: float, *, training: bool = True, D: ArrayLike = np.inf
) -> Families:
    """Return the families of rows of the labelled samples followed by `further` unlabelled ones."""
    labels = as_labels(y)
    costs, count = as_costs(C, len(labels), hard=True), len(labels) + further
    bound, slack_costs = at_least("B", B, 0.0, infinite=True), as_costs(D, count, hard=True, name="D")
    return bounded_families(labels, costs, bound, further, price=slack_costs, training=training)


def spread(vectors: Mapping[str, Vector], n: int, count: int) -> dict[str, Vector]:
    """Extend multipliers by name to all samples, with 0 for samples without such a row."""
    extended = dict(vectors)
    for name, vector in vectors.items():
        if name in ("margin", "alpha") and np.shape(vector) == (n,):
            extended[name] = np.append(vector, np.zeros(count - n))
        elif name in ("bound_above", "bound_below", "lam", "lam_star") and np.shape(vector) == (count - n,):
            extended[name] = np.append(np.zeros(n), vector)
    return extended
