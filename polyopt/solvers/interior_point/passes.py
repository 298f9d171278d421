"""Passes over the samples: everything in an iteration that is neither a product nor a factorisation.

The state has one row per family of constraints: in Z the multipliers (alpha, eta, lam, lam_star), in
T the slacks (s, xi, u, v) that each is complementary to; the last two only for finite B. In every
sample that has a cost,

    y f + xi − s = 1,    alpha + eta = C,    and in every sample    f + u = B,    −f + v = B,

of which the second holds throughout and the others are approached. `aim` is what a Newton step would
add to each product of Z and T; the centre of reference has products proportional to the cost C_i
(for bounds, to the mean cost), so that a weight is the same as so many copies of a sample.

`ease` is a dual proximal term: a step may leave each row unmet by `ease` times the change of its
multiplier. In the limit nothing changes, but no weight in D passes 1/ease; where one did, the rounding
of an output times that weight would drown X'β = Rw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["centre", "condense", "cost", "direct", "step", "step_apart", "target", "weigh"]


@njit(cache=True)
def weigh(
    y: Vector, C: Vector, f: Vector, B: float, ease: float, Z: Vector, T: Vector, d: Vector, V: Vector
) -> tuple[float, float, float, float, float, float]:
    """Fill d, the diagonal of D, and the columns beta and room of V.

    `room` is by how much beta can fall and rise: that of alpha to its nearer end, and of lam and
    lam_star to zero.

    Returns
    -------
    tuple of float
        The linear part of the dual objective; what it loses when beta falls by its room everywhere;
        the sum of all products; the largest product (those of bounds over B, where that is more than
        1); the largest multiplier; the largest violation of a row.
    """
    gain, fall, products, largest, multiplier, violation = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    unit = max(B, 1.0)
    for i in range(y.shape[0]):
        weight, beta, room = 0.0, 0.0, 0.0
        if C[i] > 0.0:
            alpha, eta, s, xi = Z[0, i], Z[1, i], T[0, i], T[1, i]
            weight = 1.0 / (s / alpha + xi / eta + ease)
            beta = y[i] * alpha
            room = min(alpha, eta)
            gain += alpha
            fall += y[i] * room
            products += alpha * s + eta * xi
            largest = max(largest, alpha * s, eta * xi)
            multiplier = max(multiplier, alpha)
            violation = max(violation, abs(1.0 - y[i] * f[i] - xi + s))
        if Z.shape[0] == 4:
            lam, lam_star, u, v = Z[2, i], Z[3, i], T[2, i], T[3, i]
            weight += lam / (u + ease * lam) + lam_star / (v + ease * lam_star)
            beta += lam_star - lam
            room += lam + lam_star
            gain -= B * (lam + lam_star)
            fall += B * (lam - lam_star)
            products += lam * u + lam_star * v
            largest = max(largest, lam * u / unit, lam_star * v / unit)
            multiplier = max(multiplier, lam, lam_star)
            violation = max(violation, abs(B - f[i] - u), abs(B + f[i] - v))
        d[i] = weight
        V[i, 0] = beta
        V[i, 1] = room
    return gain, fall, products, largest, multiplier, violation


@njit(cache=True)
def _margin(
    y: float,
    f: float,
    ease: float,
    alpha: float,
    eta: float,
    s: float,
    xi: float,
    aim_s: float,
    aim_xi: float,
) -> tuple[float, float]:
    """The change of alpha as a function of that of f: ``a (p − y df)``, as (a, p)."""
    weight = 1.0 / (s / alpha + xi / eta + ease)
    return weight, 1.0 - y * f - xi + s - aim_xi / eta + aim_s / alpha


@njit(cache=True)
def _bound(lack: float, change: float, ease: float, lam: float, u: float, aim: float) -> float:
    """The change of lam, for a change of the room under its bound."""
    return (aim - lam * (lack + change)) / (u + ease * lam)


@njit(cache=True)
def condense(
    y: Vector, C: Vector, f: Vector, B: float, ease: float, Z: Vector, T: Vector, aim: Vector, h: Vector
) -> None:
    """Fill h, where the change of beta is ``h − D df``."""
    for i in range(y.shape[0]):
        pull = 0.0
        if C[i] > 0.0:
            weight, push = _margin(y[i], f[i], ease, Z[0, i], Z[1, i], T[0, i], T[1, i], aim[0, i], aim[1, i])
            pull = y[i] * weight * push
        if Z.shape[0] == 4:
            pull -= _bound(B - f[i] - T[2, i], 0.0, ease, Z[2, i], T[2, i], aim[2, i])
            pull += _bound(B + f[i] - T[3, i], 0.0, ease, Z[3, i], T[3, i], aim[3, i])
        h[i, 0] = pull


@njit(cache=True)
def direct(
    y: Vector, C: Vector, f: Vector, B: float, ease: float, Z: Vector, T: Vector, aim: Vector, df: Vector,
    dZ: Vector, dT: Vector,
) -> tuple[float, float, float]:  # fmt: skip
    """Fill dZ and dT, the directions that go with df.

    Returns
    -------
    tuple of float
        The step at which the first multiplier or slack reaches zero (infinite for none), and the
        products' change per step and per squared step, summed.
    """
    steepest, linear, square = 0.0, 0.0, 0.0
    for i in range(y.shape[0]):
        if C[i] > 0.0:
            weight, push = _margin(y[i], f[i], ease, Z[0, i], Z[1, i], T[0, i], T[1, i], aim[0, i], aim[1, i])
            change = weight * (push - y[i] * df[i])
            dZ[0, i] = change
            dZ[1, i] = -change
            dT[0, i] = (aim[0, i] - T[0, i] * change) / Z[0, i]
            dT[1, i] = (aim[1, i] + T[1, i] * change) / Z[1, i]
        if Z.shape[0] == 4:
            dZ[2, i] = _bound(B - f[i] - T[2, i], -df[i], ease, Z[2, i], T[2, i], aim[2, i])
            dZ[3, i] = _bound(B + f[i] - T[3, i], df[i], ease, Z[3, i], T[3, i], aim[3, i])
            dT[2, i] = (aim[2, i] - T[2, i] * dZ[2, i]) / Z[2, i]
            dT[3, i] = (aim[3, i] - T[3, i] * dZ[3, i]) / Z[3, i]
        for r in range(Z.shape[0]):
            if -dZ[r, i] > steepest * Z[r, i]:
                steepest = -dZ[r, i] / Z[r, i]
            if -dT[r, i] > steepest * T[r, i]:
                steepest = -dT[r, i] / T[r, i]
            linear += dZ[r, i] * T[r, i] + Z[r, i] * dT[r, i]
            square += dZ[r, i] * dT[r, i]
    return (1.0 / steepest if steepest > 0.0 else np.inf), linear, square


@njit(cache=True)
def target(
    C: Vector,
    mean: float,
    mu: float,
    Z: Vector,
    T: Vector,
    dZ: Vector,
    dT: Vector,
    second: float,
    aim: Vector,
) -> None:
    """Aim at products of mu per unit of cost; less `second` times what dZ and dT would add to them."""
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            wanted = mu * (C[i] if r < 2 else mean)
            aim[r, i] = wanted - Z[r, i] * T[r, i] - second * dZ[r, i] * dT[r, i]


@njit(cache=True)
def centre(
    C: Vector, mean: float, mu: float, Z: Vector, T: Vector, dZ: Vector, dT: Vector, length: float,
    low: float, high: float, aim: Vector,
) -> None:  # fmt: skip
    """Bring products that a step of this length would leave outside [low, high] of mu back to it."""
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            wanted = mu * (C[i] if r < 2 else mean)
            product = (Z[r, i] + length * dZ[r, i]) * (T[r, i] + length * dT[r, i])
            if product < low * wanted:
                aim[r, i] += low * wanted - product
            elif product > high * wanted:
                aim[r, i] -= min(product - high * wanted, high * wanted)


@njit(cache=True)
def step(length: float, Z: Vector, T: Vector, dZ: Vector, dT: Vector) -> None:
    """Move everything by the same step."""
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            Z[r, i] += length * dZ[r, i]
            T[r, i] += length * dT[r, i]


@njit(cache=True)
def step_apart(share: float, Z: Vector, T: Vector, dZ: Vector, dT: Vector) -> None:
    """Move each sample by the whole step, or else by this share of the way to its own nearest end.

    alpha and eta move together, as their sum is fixed; s and xi do, as their difference matters.
    """
    for i in range(Z.shape[1]):
        _move_pair(share, Z, dZ, i)
        _move_pair(share, T, dT, i)
        for r in range(2, Z.shape[0]):
            Z[r, i] += max(dZ[r, i], -share * Z[r, i])
            T[r, i] += max(dT[r, i], -share * T[r, i])


@njit(cache=True)
def _move_pair(share: float, Z: Vector, dZ: Vector, i: int) -> None:
    length = 1.0
    for r in range(2):
        if length * -dZ[r, i] > share * Z[r, i]:
            length = share * Z[r, i] / -dZ[r, i]
    for r in range(2):
        Z[r, i] += length * dZ[r, i]


@njit(cache=True)
def cost(y: Vector, C: Vector, f: Vector, shrink: float) -> float:
    """Cost of the least slacks of the outputs ``shrink f``."""
    total = 0.0
    for i in range(y.shape[0]):
        slack = 1.0 - shrink * y[i] * f[i]
        if slack > 0.0:
            total += C[i] * slack
    return total
