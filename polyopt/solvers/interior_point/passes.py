"""Passes over the samples: everything in an iteration that is neither a product nor a factorisation.

The families of rows come in two lots: S with slack, then those without. In Z are the multipliers and in T the
slacks that each is complementary to. A family with slack has two rows in either, (mu, eta) and (s, xi), and a
family without slack one, mu and s. With the outputs f and each family's side and kink,

    side f + xi − s = kink,    mu + eta = cap,    and without slack    side f − s = kink,

of which the second holds throughout and the others are approached. A sample with a cap of 0 has no such row.
`aim` is what a Newton step would add to each product of Z and T; the centre of reference has products
proportional to the cap (without slack, to the mean cap), so that a weight is the same as so many copies of a
sample.

`ease` is a dual proximal term: a step may leave each row unmet by `ease` times the change of its
multiplier. In the limit nothing changes, but no weight in D passes 1/ease; where one did, the rounding
of an output times that weight would drown X'β = Rw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["State", "centre", "condense", "cost", "direct", "step", "step_apart", "target", "weigh"]


class State(NamedTuple):
    """What the passes read: families, with slack first, and the point.

    ``sides`` (q, n) are -1 and +1, ``kinks`` (q,), ``caps`` (S, n); ``f`` (n,) the outputs; Z and T of shape
    (S + q, n).
    """

    sides: NDArray[np.int8]
    kinks: Vector
    caps: Vector
    f: Vector
    ease: float
    Z: Vector
    T: Vector


@njit(cache=True)
def weigh(state: State, d: Vector, V: Vector) -> tuple[float, float, float, float, float, float]:
    """Fill d, the diagonal of D, and the columns beta and room of V.

    `room` is by how much beta can fall and rise: by each multiplier's way to its nearer end.

    Returns
    -------
    tuple of float
        The linear part of the dual objective; what it loses when beta falls by its room everywhere;
        the sum of all products; the largest product (in units of its kink, where that is more than
        1); the largest multiplier; the largest violation of a row.
    """
    sides, kinks, caps, f, ease, Z, T = state
    soft = len(caps)
    gain, fall, products, largest, multiplier, violation = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(f)):
        weight, beta, room = 0.0, 0.0, 0.0
        for q in range(len(kinks)):
            side, kink = sides[q, i], kinks[q]
            if q < soft:
                if not caps[q, i] > 0.0:
                    continue
                mu, eta, s, xi = Z[2 * q, i], Z[2 * q + 1, i], T[2 * q, i], T[2 * q + 1, i]
                weight += 1.0 / (s / mu + xi / eta + ease)
                way, product = min(mu, eta), mu * s + eta * xi
                worst = max(mu * s, eta * xi)
            else:
                mu, s, xi = Z[soft + q, i], T[soft + q, i], 0.0
                weight += mu / (s + ease * mu)
                way, product, worst = mu, mu * s, mu * s
            beta += side * mu
            room += way
            gain += kink * mu
            fall += side * kink * way
            products += product
            largest = max(largest, worst / max(abs(kink), 1.0))
            multiplier = max(multiplier, mu)
            violation = max(violation, abs(kink - side * f[i] - xi + s))
        d[i] = weight
        V[i, 0] = beta
        V[i, 1] = room
    return gain, fall, products, largest, multiplier, violation


@njit(cache=True)
def _with_slack(state: State, aim: Vector, q: int, i: int) -> tuple[float, float]:
    """The change of mu as a function of that of f: ``a (p − side df)``, as (a, p)."""
    sides, kinks, _, f, ease, Z, T = state
    mu, eta, s, xi = Z[2 * q, i], Z[2 * q + 1, i], T[2 * q, i], T[2 * q + 1, i]
    weight = 1.0 / (s / mu + xi / eta + ease)
    return weight, kinks[q] - sides[q, i] * f[i] - xi + s - aim[2 * q + 1, i] / eta + aim[2 * q, i] / mu


@njit(cache=True)
def _without_slack(state: State, aim: Vector, q: int, i: int, df: float) -> float:
    """The change of mu for a change of f."""
    sides, kinks, caps, f, ease, Z, T = state
    r = len(caps) + q
    lack = sides[q, i] * f[i] - kinks[q] - T[r, i]
    return (aim[r, i] - Z[r, i] * (lack + sides[q, i] * df)) / (T[r, i] + ease * Z[r, i])


@njit(cache=True)
def condense(state: State, aim: Vector, h: Vector) -> None:
    """Fill h, where the change of beta is ``h − D df``."""
    sides, caps, soft = state.sides, state.caps, len(state.caps)
    for i in range(len(state.f)):
        pull = 0.0
        for q in range(len(state.kinks)):
            if q >= soft:
                pull += sides[q, i] * _without_slack(state, aim, q, i, 0.0)
            elif caps[q, i] > 0.0:
                weight, push = _with_slack(state, aim, q, i)
                pull += sides[q, i] * weight * push
        h[i, 0] = pull


@njit(cache=True)
def direct(state: State, aim: Vector, df: Vector, dZ: Vector, dT: Vector) -> tuple[float, float, float]:
    """Fill dZ and dT, the directions that go with df.

    Returns
    -------
    tuple of float
        The step at which the first multiplier or slack reaches zero (infinite for none), and the
        products' change per step and per squared step, summed.
    """
    sides, caps, Z, T, soft = state.sides, state.caps, state.Z, state.T, len(state.caps)
    steepest, linear, square = 0.0, 0.0, 0.0
    for i in range(len(df)):
        for q in range(len(state.kinks)):
            if q >= soft:
                r = soft + q
                dZ[r, i] = _without_slack(state, aim, q, i, df[i])
                dT[r, i] = (aim[r, i] - T[r, i] * dZ[r, i]) / Z[r, i]
            elif caps[q, i] > 0.0:
                weight, push = _with_slack(state, aim, q, i)
                change, r = weight * (push - sides[q, i] * df[i]), 2 * q
                dZ[r, i], dZ[r + 1, i] = change, -change
                dT[r, i] = (aim[r, i] - T[r, i] * change) / Z[r, i]
                dT[r + 1, i] = (aim[r + 1, i] + T[r + 1, i] * change) / Z[r + 1, i]
        for r in range(Z.shape[0]):
            if -dZ[r, i] > steepest * Z[r, i]:
                steepest = -dZ[r, i] / Z[r, i]
            if -dT[r, i] > steepest * T[r, i]:
                steepest = -dT[r, i] / T[r, i]
            linear += dZ[r, i] * T[r, i] + Z[r, i] * dT[r, i]
            square += dZ[r, i] * dT[r, i]
    return (1.0 / steepest if steepest > 0.0 else np.inf), linear, square


@njit(cache=True)
def target(state: State, mean: float, mu: float, dZ: Vector, dT: Vector, second: float, aim: Vector) -> None:
    """Aim at products of mu per unit of cost; less `second` times what dZ and dT would add to them."""
    caps, Z, T = state.caps, state.Z, state.T
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            wanted = mu * (caps[r // 2, i] if r < 2 * len(caps) else mean)
            aim[r, i] = wanted - Z[r, i] * T[r, i] - second * dZ[r, i] * dT[r, i]


@njit(cache=True)
def centre(
    state: State, mean: float, mu: float, dZ: Vector, dT: Vector, length: float, low: float, high: float,
    aim: Vector,
) -> None:  # fmt: skip
    """Bring products that a step of this length would leave outside [low, high] of mu back to it."""
    caps, Z, T = state.caps, state.Z, state.T
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            wanted = mu * (caps[r // 2, i] if r < 2 * len(caps) else mean)
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
def step_apart(soft: int, share: float, Z: Vector, T: Vector, dZ: Vector, dT: Vector) -> None:
    """Move each sample by the whole step, or else by this share of the way to its own nearest end.

    mu and eta move together, as their sum is fixed; s and xi do, as their difference matters.
    """
    for i in range(Z.shape[1]):
        for q in range(soft):
            _move_pair(share, Z, dZ, 2 * q, i)
            _move_pair(share, T, dT, 2 * q, i)
        for r in range(2 * soft, Z.shape[0]):
            Z[r, i] += max(dZ[r, i], -share * Z[r, i])
            T[r, i] += max(dT[r, i], -share * T[r, i])


@njit(cache=True)
def _move_pair(share: float, Z: Vector, dZ: Vector, first: int, i: int) -> None:
    length = 1.0
    for r in range(first, first + 2):
        if length * -dZ[r, i] > share * Z[r, i]:
            length = share * Z[r, i] / -dZ[r, i]
    for r in range(first, first + 2):
        Z[r, i] += length * dZ[r, i]


@njit(cache=True)
def cost(state: State, shrink: float) -> float:
    """Cost of the least slacks of the outputs ``shrink f``."""
    total = 0.0
    for i in range(len(state.f)):
        for q in range(len(state.caps)):
            slack = state.kinks[q] - shrink * state.sides[q, i] * state.f[i]
            if slack > 0.0:
                total += state.caps[q, i] * slack
    return total
