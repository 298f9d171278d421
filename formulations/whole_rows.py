"""What programs of a face of whole numbers p from −M to M share: rows, names and the hinge loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp

from formulations.arguments import positive, whole
from formulations.program import Program, Row, without_multipliers
from formulations.recovery import as_data
from formulations.svm import cost_parameter, margin_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from formulations.matrices import MatrixLike

__all__ = [
    "LETTERS",
    "HingeMultipliers",
    "hinge_face",
    "hinge_multipliers",
    "number_multiplier_rows",
    "number_rows",
    "whole_program",
]

LETTERS = {"δ": "> 0: the scale of the whole numbers", "M": "the largest of the whole numbers"}
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


def whole_program(
    room: str, title: str, source: str, rows: tuple[Row, ...], exact: bool, **rest: Any
) -> Program:
    """The program of whole numbers, or its relaxation to real ones.

    Parameters
    ----------
    room, title, source : str
        The module that states it, and title and source of the exact program.
    rows : tuple of Row
        With the multipliers of the relaxation; an integer program has none.
    exact : bool
        Whether the numbers are whole.
    **rest
        What else a :class:`formulations.program.Program` is made of.
    """
    return Program(
        name=f"{room}.mixed_integer" if exact else f"{room}.relaxation",
        title=title if exact else f"{title}, relaxed",
        source=source if exact else f"{source} (derived)",
        rows=without_multipliers(rows) if exact else rows,
        **rest,
    )


def hinge_face(
    X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike, *, exact: bool, squares: bool,
    room: str, title: str, source: str, letters: Mapping[str, str],
) -> Program:  # fmt: skip
    """A face of whole numbers that pays by the hinge loss, with or without its squares.

    Parameters
    ----------
    X, y, C
        As in :func:`formulations.cpm_face.face`.
    scale : float
        δ, positive.
    M : int
        The largest coefficient, at least 1.
    exact, room, title, source
        As in :func:`whole_program`.
    squares : bool
        Whether δ² ‖p‖² + b² counts beside the losses.
    letters : mapping of str to str
        What the letters of the formulas mean.
    """
    X, y = as_data(X, y)
    scale, M = positive("scale", scale), whole("M", M)
    n, m = X.shape
    p, b, xi = cp.Variable(m, name="p", integer=exact), cp.Variable(name="b"), cp.Variable(n, name="xi")
    costs = cost_parameter(C, n)
    size, size_text = 0.0, ""
    if squares:
        size, size_text = scale**2 * cp.sum_squares(p) + cp.square(b), "δ² ‖p‖² + b² + "
    return whole_program(
        room, title, source, (*margin_rows(y, scale * (X @ p) + b, xi, "δ p·xᵢ + b"), *number_rows(p, M)),
        exact,
        objective=cp.Minimize(size + costs @ xi),
        objective_text=f"{size_text}Σᵢ Cᵢ ξᵢ",
        variables={"p": p, "b": b, "xi": xi},
        parameters={"C": costs},
        letters=letters,
        data={"x": X, "y": y, "δ": scale, "M": float(M)},
    )  # fmt: skip


class HingeMultipliers(NamedTuple):
    """What the dual of a face of whole numbers that pays by the hinge loss is made of.

    Attributes
    ----------
    alpha, mu, nu : Variable of shape (n,), (m,), (m,)
        Its variables.
    costs : Parameter of shape (n,)
        Of slack.
    pull, balance : Expression of shape (m,), and scalar
        δ Σᵢ αᵢ yᵢ xᵢ − μ + ν, and Σᵢ αᵢ yᵢ.
    data : dict
        What the formulas are of, checked.
    """

    alpha: cp.Variable
    mu: cp.Variable
    nu: cp.Variable
    costs: cp.Parameter
    pull: cp.Expression
    balance: cp.Expression
    data: dict[str, Any]


def hinge_multipliers(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike) -> HingeMultipliers:
    """The parts of the dual; arguments as in :func:`hinge_face`."""
    X, y = as_data(X, y)
    scale, M = positive("scale", scale), whole("M", M)
    n, m = X.shape
    alpha, mu, nu = cp.Variable(n, name="alpha"), cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    pull = scale * (X.T @ cp.multiply(y, alpha)) - mu + nu
    data = {"x": X, "y": y, "δ": scale, "M": float(M)}
    return HingeMultipliers(alpha, mu, nu, cost_parameter(C, n), pull, y @ alpha, data)
