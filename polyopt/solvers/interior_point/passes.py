"""Passes over the samples: everything in an iteration that is neither a product nor a factorisation.

The families of rows come in two lots: S with slack, then those without. In Z are the multipliers and in T the
slacks that each is complementary to. A family with slack has two rows in either, (mu, eta) and (s, xi), and a
family without slack one, mu and s. With the outputs f and each family's side and kink,

    side f + xi − s = kink,    mu + eta = cap,    and without slack    side f − s = kink,

of which the second holds throughout and the others are approached. A sample with a cap of 0 has no such row;
a row without slack is none where its multiplier is 0.
`aim` is what a Newton step would add to each product of Z and T; the centre of reference has products
proportional to the cap (without slack, to the mean cap), so that a weight of 2 is the same as two copies of
a sample.

`ease` is a dual proximal term: a step may leave each row unmet by `ease` times the change of its
multiplier. In the limit nothing changes, but no weight in D passes 1/ease; where one did, the rounding
of an output times that weight would drown X'β = Rw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["State", "condense", "cost", "direct", "step", "step_apart", "target", "weigh"]


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


@njit(cache=True, error_model="numpy", nogil=True)
def weigh(state: State, d: Vector, V: Vector) -> tuple[float, float, float, float, float, float]:
    """Fill d, the diagonal of D, and the columns beta and room of V.

    `room` is by how much beta can fall and rise: by each multiplier's way to its nearer end.

    Returns: the linear part of the dual objective; what it loses when beta falls by its room everywhere; the
        sum of all products; the largest product (in units of its kink, where that is more than 1); the
        largest multiplier; the largest violation of a row.
    """
    sides, kinks, caps, f, ease, Z, T = state
    soft = len(caps)
    gain, fall, products, largest, multiplier, violation = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    d[:], V[:] = 0.0, 0.0
    for q in range(len(kinks)):
        side, kink, unit = sides[q], kinks[q], max(abs(kinks[q]), 1.0)
        r = 2 * q if q < soft else soft + q
        mu, s = Z[r], T[r]
        for i in range(len(f)):
            if not (caps[q, i] if q < soft else mu[i]) > 0.0:
                continue
            own, room, slack, worst = mu[i] * s[i], mu[i], 0.0, mu[i] * s[i]
            if q < soft:
                eta, xi = Z[r + 1, i], T[r + 1, i]
                d[i] += 1.0 / (s[i] / mu[i] + xi / eta + ease)
                room, slack, worst = min(mu[i], eta), xi, max(own, eta * xi)
                own += eta * xi
            else:
                d[i] += mu[i] / (s[i] + ease * mu[i])
            V[i, 0] += side[i] * mu[i]
            V[i, 1] += room
            gain += kink * mu[i]
            fall += side[i] * kink * room
            products += own
            largest = max(largest, worst / unit)
            multiplier = max(multiplier, mu[i])
            violation = max(violation, abs(kink - side[i] * f[i] - slack + s[i]))
    return gain, fall, products, largest, multiplier, violation


@njit(cache=True, error_model="numpy", nogil=True)
def _changes(state: State, aim: Vector, q: int, change: Vector, weight: Vector) -> None:
    """The change of mu of a family as a function of that of f: ``change − weight side df``."""
    sides, kinks, caps, f, ease, Z, T = state
    soft, side, kink = len(caps), sides[q], kinks[q]
    if q < soft:
        mu, eta, s, xi, cap = Z[2 * q], Z[2 * q + 1], T[2 * q], T[2 * q + 1], caps[q]
        aim_s, aim_xi = aim[2 * q], aim[2 * q + 1]
        for i in range(len(f)):
            own = 1.0 / (s[i] / mu[i] + xi[i] / eta[i] + ease)
            push = kink - side[i] * f[i] - xi[i] + s[i] - aim_xi[i] / eta[i] + aim_s[i] / mu[i]
            weight[i] = own if cap[i] > 0.0 else 0.0
            change[i] = own * push if cap[i] > 0.0 else 0.0
    else:
        mu, s, aim_s = Z[soft + q], T[soft + q], aim[soft + q]
        for i in range(len(f)):
            lack, held = side[i] * f[i] - kink - s[i], s[i] + ease * mu[i]
            weight[i] = mu[i] / held
            change[i] = (aim_s[i] - mu[i] * lack) / held if mu[i] > 0.0 else 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def condense(state: State, aim: Vector, V: Vector, k: int, change: Vector, weight: Vector) -> None:
    """Fill column k of V with h, where beta changes by ``h − D df``; the last two are room to work in."""
    for i in range(len(change)):
        V[i, k] = 0.0
    for q in range(len(state.kinks)):
        _changes(state, aim, q, change, weight)
        side = state.sides[q]
        for i in range(len(change)):
            V[i, k] += side[i] * change[i]


@njit(cache=True, error_model="numpy", nogil=True)
def direct(
    state: State, aim: Vector, df: Vector, dZ: Vector, dT: Vector, weight: Vector
) -> tuple[float, float, float]:
    """Fill dZ and dT, the directions that go with df; `weight` (n,) is room to work in.

    Returns: the step at which the first multiplier or slack reaches zero (infinite for none), and the
        products' change per step and per squared step, summed.
    """
    Z, T, soft = state.Z, state.T, len(state.caps)
    steepest, linear, square = 0.0, 0.0, 0.0
    for q in range(len(state.kinks)):
        side, r = state.sides[q], 2 * q if q < soft else soft + q
        change = dZ[r]
        _changes(state, aim, q, change, weight)
        for i in range(len(df)):
            change[i] -= weight[i] * side[i] * df[i]
        _slacks(Z[r], T[r], aim[r], change, dT[r])
        if q < soft:
            for i in range(len(df)):
                dZ[r + 1, i] = -change[i]
            _slacks(Z[r + 1], T[r + 1], aim[r + 1], dZ[r + 1], dT[r + 1])
    for r in range(len(Z)):
        steep, along, bend = _along(Z[r], T[r], dZ[r], dT[r])
        steepest, linear, square = max(steepest, steep), linear + along, square + bend
    return (1.0 / steepest if steepest > 0.0 else np.inf), linear, square


@njit(cache=True, error_model="numpy", nogil=True)
def _slacks(z: Vector, t: Vector, aim: Vector, change: Vector, out: Vector) -> None:
    """The change of a slack that goes with that of its multiplier; none where there is no row."""
    for i in range(len(z)):
        out[i] = (aim[i] - t[i] * change[i]) / z[i] if z[i] > 0.0 else 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def _along(z: Vector, t: Vector, dz: Vector, dt: Vector) -> tuple[float, float, float]:
    """The inverse of the longest step, and the products' change per step and per squared step."""
    steepest, linear, square = 0.0, 0.0, 0.0
    for i in range(len(z)):
        if -dz[i] > steepest * z[i]:
            steepest = -dz[i] / z[i]
        if -dt[i] > steepest * t[i]:
            steepest = -dt[i] / t[i]
        linear += dz[i] * t[i] + z[i] * dt[i]
        square += dz[i] * dt[i]
    return steepest, linear, square


@njit(cache=True, nogil=True)
def target(state: State, mean: float, mu: float, dZ: Vector, dT: Vector, second: float, aim: Vector) -> None:
    """Aim at products of mu per unit of cost; less `second` times what dZ and dT would add to them."""
    caps, Z, T = state.caps, state.Z, state.T
    for r in range(Z.shape[0]):
        is_soft, cap = r < 2 * len(caps), caps[min(r // 2, len(caps) - 1)]
        for i in range(Z.shape[1]):
            wanted = mu * (cap[i] if is_soft else mean)
            aim[r, i] = wanted - Z[r, i] * T[r, i] - second * dZ[r, i] * dT[r, i]


@njit(cache=True, nogil=True)
def step(length: float, Z: Vector, T: Vector, dZ: Vector, dT: Vector) -> None:
    """Move everything by the same step."""
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            Z[r, i] += length * dZ[r, i]
            T[r, i] += length * dT[r, i]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _move_pair(share: float, Z: Vector, dZ: Vector, first: int, i: int) -> None:
    length = 1.0
    for r in range(first, first + 2):
        if length * -dZ[r, i] > share * Z[r, i]:
            length = share * Z[r, i] / -dZ[r, i]
    for r in range(first, first + 2):
        Z[r, i] += length * dZ[r, i]


@njit(cache=True, nogil=True)
def cost(state: State, shrink: float) -> float:
    """Cost of the least slacks of the outputs ``shrink f``."""
    total = 0.0
    for i in range(len(state.f)):
        for q in range(len(state.caps)):
            slack = state.kinks[q] - shrink * state.sides[q, i] * state.f[i]
            if slack > 0.0:
                total += state.caps[q, i] * slack
    return total
