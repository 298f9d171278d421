"""The rows of a face of whole numbers p from −M to M, and those of their multipliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.program import Row

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["number_multiplier_rows", "number_rows"]

_SAYS = "what a larger M would save at feature j"


def number_rows(p: cp.Variable, M: int) -> tuple[Row, ...]:
    """No number beyond M or −M, with the multipliers mu and nu.

    Parameters
    ----------
    p : Variable of shape (m,)
        The numbers.
    M : int
        The largest.
    """
    return (
        Row("most", p <= float(M), "pⱼ ≤ M", "mu", _SAYS),
        Row("least", -float(M) <= p, "−M ≤ pⱼ", "nu", _SAYS),
    )


def number_multiplier_rows(mu: cp.Variable, nu: cp.Variable) -> tuple[Row, ...]:
    """The signs of mu and nu, each of shape (m,), in the dual."""
    return (
        Row("most", mu >= 0, "μⱼ ≥ 0", "above", "$M − pⱼ$"),
        Row("least", nu >= 0, "νⱼ ≥ 0", "below", "$M + pⱼ$"),
    )
