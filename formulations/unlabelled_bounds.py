"""Relative Margin Machines with bounds at unlabelled samples: stacked samples, constraints and multipliers.

The machine has a margin constraint y_i f(x_i) ≥ 1 − ξ_i at each of n labelled samples, and bounds f ≤ B and
−f ≤ B also at k unlabelled ones, which follow the labelled ones in one matrix. The machine has three families
of constraints (:mod:`formulations.families`): the margins, the upper and the lower bounds. Arrays of costs or
multipliers of a family have an entry for each of the n + k samples, 0 if a sample has no such constraint.
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
    """Stack the rows of X and U, as CSR if either is CSR."""
    if is_sparse(X) or is_sparse(U):
        return sp.csr_array(sp.vstack([sp.csr_array(X), sp.csr_array(U)]))
    return np.vstack([X, U])


def stacked(X: MatrixLike, y: ArrayLike, U: MatrixLike) -> tuple[Matrix, Vector]:
    """Check and stack the samples X (n, m) and U (k, m); return them (n + k, m) and the labels (n,)."""
    X, y = as_data(X, y)
    n_unlabelled = np.shape(U)[0] if np.ndim(U) or is_sparse(U) else 0
    try:
        U, _ = as_data(U, np.ones(n_unlabelled))
    except ValueError as error:
        raise ValueError(f"the further samples: {error}") from error
    if U.shape[1] != X.shape[1]:
        raise ValueError(f"the further samples must have the {X.shape[1]} features of X, not {U.shape[1]}")
    return append(X, U), y


def families(
    y: ArrayLike, n_unlabelled: int, C: ArrayLike, B: float, *, training: bool = True, D: ArrayLike = np.inf
) -> Families:
    """Return the margins and bounds of the labelled samples followed by the unlabelled ones.

    Without `training` only the unlabelled samples are bounded. C is the cost of slack in the margins, D that
    in the bounds; both may be infinite.
    """
    labels = as_labels(y)
    margin_costs = as_costs(C, len(labels), hard=True)
    bound_costs = as_costs(D, len(labels) + n_unlabelled, hard=True, name="D")
    B = at_least("B", B, 0.0, infinite=True)
    return bounded_families(labels, margin_costs, B, n_unlabelled, bound_cost=bound_costs, training=training)


def extend_multipliers(multipliers: Mapping[str, Vector], n: int, n_total: int) -> dict[str, Vector]:
    """Extend multipliers, by family or letter, with zeros to all `n_total` samples; the first n are labelled.

    Multipliers of margins may be given for the labelled samples only, those of bounds for the unlabelled.
    """
    extended = dict(multipliers)
    for name, vector in multipliers.items():
        if name in ("margin", "alpha") and np.shape(vector) == (n,):
            extended[name] = np.append(vector, np.zeros(n_total - n))
        elif name in ("bound_above", "bound_below", "lam", "lam_star") and np.shape(vector) == (n_total - n,):
            extended[name] = np.append(np.zeros(n), vector)
    return extended
