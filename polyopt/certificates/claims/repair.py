"""Points and multipliers made feasible in rational arithmetic, so that a claim is a theorem.

Multipliers are taken down to a grid, of 62 bits of the largest for a claim in double precision, and clipped
to their caps. What is left of the balance Σ β_i = 0 is taken from the heavier side: from multipliers that
are between their ends first, where it costs least. A point is clipped to its box, or scaled until the rows
without slack hold.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from formulations.language.types import Array
    from polyopt.certificates.claims.statement import Statement
    from polyopt.check.check import Program, Rows

__all__ = ["feasible_multipliers", "feasible_point", "held_by_groups", "shares_of"]


def feasible_multipliers(
    program: Program, given: dict[str, Any], digits: int = 53
) -> dict[str, list[list[Fraction]]]:
    """Multipliers that keep signs, caps and balance as rational numbers, by family and face.

    Given are, by the names of the rows, arrays (K, n) of floats, or lists of fractions; `digits` are the bits
    that count, and some more are kept.
    """
    faces = program.faces
    rows = [(row, given[row.name]) for row in program.rows if row.name in given]
    largest = max((float(np.max(np.abs(np.asarray(m, dtype=float)))) for _, m in rows), default=0.0)
    bits = digits + 9 - int(np.frexp(largest or 1.0)[1])
    unit = Fraction(2) ** bits
    whole = [(row, _clipped(row, [[_floor(v, unit) for v in part] for part in m], unit)) for row, m in rows]
    if program.intercept:
        for k in range(faces):
            _balance([(row, m[k]) for row, m in whole], unit)
    found = {row.name: [[v / unit for v in map(Fraction, part)] for part in m] for row, m in whole}
    for row, _ in rows:
        if row.loss == "linear":
            _fill(row, found[row.name])
    return found


def _floor(value: float | Fraction, unit: Fraction) -> int:
    exact = Fraction(value) * unit
    return exact.numerator // exact.denominator


def _clipped(row: Rows, m: list[list[int]], unit: Fraction) -> list[list[int]]:
    """Multipliers (by face) within 0 and their caps, and none where there is no row."""
    found = [[0] * len(part) for part in m]
    for i, (cap, at) in enumerate(zip(row.cap, row.at, strict=True)):
        most = None if cap is None else _floor(cap, unit)
        for k in at:
            found[k][i] = max(0, m[k][i] if most is None else min(m[k][i], most))
        over = 0 if most is None or row.pays == "sum" else sum(found[k][i] for k in at) - most
        for _, k in sorted((-found[k][i], k) for k in at):
            cut = min(max(over, 0), found[k][i])
            found[k][i] -= cut
            over -= cut
    return found


def _fill(row: Rows, m: list[list[Fraction]]) -> None:
    """Raise multipliers (by face) of a linear loss to their caps, in place; the largest where they share."""
    for i, (cap, at) in enumerate(zip(row.cap, row.at, strict=True)):
        assert cap is not None
        if row.pays == "sum":
            for k in at:
                m[k][i] = cap
        elif at:
            k = max(at, key=lambda k: m[k][i])
            m[k][i] += cap - sum(m[k][i] for k in at)


def _balance(parts: list[tuple[Rows, list[int]]], unit: Fraction) -> None:
    """Take from the heavier side, in place, what Σ β has beyond 0."""
    off = sum(sum(s * v for s, v in zip(row.side, m, strict=True) if v) for row, m in parts)
    side, off = (1 if off > 0 else -1), abs(off)
    for only_free in (True, False):
        places = [
            (m, i)
            for row, m in parts
            for i, (v, cap) in enumerate(zip(m, row.cap, strict=True))
            if v and row.side[i] == side
            if not only_free or cap is None or v < _floor(cap, unit)
        ]
        total = sum(m[i] for m, i in places)
        if not off or not total:
            continue
        share = min(off, total)
        cuts = [m[i] * share // total for m, i in places]
        rest = share - sum(cuts)
        for (m, i), cut in zip(places, cuts, strict=True):
            more = min(rest, m[i] - cut)
            m[i] -= cut + more
            rest -= more
        off -= share


def feasible_point(program: Program, statement: Statement) -> tuple[list[list[Fraction]], list[Fraction]]:
    """The statement's point within its box, scaled to keep every row without slack.

    Raise ValueError if no multiple of the point keeps the rows without slack.
    """
    faces = [[Fraction(float(v) if isinstance(v, np.floating) else v) for v in w] for w in statement.W]
    b = [Fraction(v) for v in statement.b]
    if program.kind != "kernel":
        faces = [
            [min(max(v, low), high) for v, (*_, low, high) in zip(w, prices, strict=True)]
            for w, prices in zip(faces, program.prices, strict=True)
        ]
    hard = [row for row in program.rows if None in row.cap]
    if not hard:
        return faces, b
    scale = _scale(program, hard, faces, b, 1 << statement.bits - 3)
    return [[scale * v for v in w] for w in faces], [scale * v for v in b]


def _scale(
    program: Program, hard: list[Rows], faces: list[list[Fraction]], b: list[Fraction], grid: int
) -> Fraction:
    """The factor of the point, a multiple of 1/grid; 1 if the point keeps the rows."""
    f, off = program.through(faces[0], True)
    most, least = None, Fraction(0)
    for row in hard:
        for s, cap, v in zip(row.side, row.cap, f, strict=True):
            if cap is not None:
                continue
            reach = s * (v + b[0]) - off
            if reach < 0 and row.kink < 0:
                bound = row.kink / reach
                most = bound if most is None else min(most, bound)
            elif row.kink > 0 and reach > 0:
                least = max(least, row.kink / reach)
            elif reach < row.kink:
                raise ValueError("no multiple of the point keeps the rows without slack")
    if least > 1:
        scale = Fraction(-((-least * grid) // 1), grid)
    else:
        scale = Fraction(1) if most is None or most >= 1 else Fraction((most * grid) // 1, grid)
    if scale < least or (most is not None and scale > most):
        raise ValueError("no multiple of the point keeps the rows without slack")
    return scale


def held_by_groups(program: Program, pulls: list[list[Fraction]], faces: list[list[Fraction]]) -> Any:
    """The multipliers of groups against some pulls (K, m), never longer than the groups' price.

    It is along the pulls or along the faces that use the group, whichever leaves the lower price: where an
    end of a weight's range holds it as well, the pulls point elsewhere. Where the longest face alone is paid
    for, it is along the faces.
    """
    groups, price = np.array([int(g) for g in program.groups]), float(program.group)
    V, W = (np.array([[float(v) for v in part] for part in parts]) for parts in (pulls, faces))
    edges = [[[float(v) for v in column] for column in zip(*face, strict=True)] for face in program.prices]
    columns = [np.array(column) for column in zip(*edges, strict=True)]
    held = np.zeros_like(V)
    for group in set(groups.tolist()) - {0}:
        own, found = groups == group, []
        ends = [column[:, own] for column in columns]
        for along, whole in ((_cut(V[:, own], ends), False), (W[:, own], True)):
            length = float(np.linalg.norm(along))
            if length > 0.0:
                most = (1.0 - 1e-13) * price / length  # less what rounding hides of the length
                found.append((most if whole else min(most, 1.0)) * along)
        if program.shape == "worst":
            found = found[-1:]
        if found:
            left = [_price(V[:, own] - q, ends) for q in found]
            held[:, own] = found[int(np.argmin(left))]
    unit = 2.0 ** (int(np.frexp(price)[1]) - 60)
    return [[Fraction(v) for v in np.trunc(part / unit) * unit] for part in held]


def _cut(v: Array, ends: list[Array]) -> Array:
    """Pulls less the price of absolute values, 0 where the sign is forbidden."""
    _, l1, _, low, high = ends
    return np.asarray(np.maximum(v - l1, 0.0) * (high > 0) - np.maximum(-v - l1, 0.0) * (low < 0))


def _price(v: Array, ends: list[Array]) -> float:
    """Σ max (v w − h w² − l |w|) over low ≤ w ≤ high."""
    curve, _, _, low, high = ends
    rest = _cut(v, ends)
    at = rest != 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        free = np.where(curve > 0.0, 0.5 * rest / curve, np.sign(rest) * np.inf)
    w = np.clip(free, low, high)[at]
    return float((rest[at] * w).sum() - (curve[at] * np.where(curve[at] > 0.0, w, 0.0) ** 2).sum())


def shares_of(lengths: list[float]) -> list[Fraction]:
    """Lengths, not negative, as shares of 1 on a grid of 50 bits; no positive length gets the share 0."""
    total = sum(lengths)
    if not total > 0.0:
        return [Fraction(1, 1), *[Fraction(0)] * (len(lengths) - 1)]
    found = [Fraction(max(round(v / total * (1 << 50)), v > 0.0), 1 << 50) for v in lengths]
    k = max(range(len(found)), key=found.__getitem__)
    found[k] += 1 - sum(found)
    return found
