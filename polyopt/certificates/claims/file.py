"""The file of a claim: digests of the data, the program, both points made feasible, and the claim in numbers.

Points and multipliers are made feasible in rational arithmetic, so that a claim is a theorem. Multipliers
are rounded down to a grid, of 62 bits of the largest for a claim in double precision, and clipped to their
caps. The rest of the balance Σ β_i = 0 is taken from the heavier side: from multipliers between their ends
first, at the lowest cost. A point is clipped to its box, or scaled until the rows without slack hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.language.types import Array, Matrix, as_csr, canonical
from polyopt.base.files import write_text
from polyopt.certificates.claims.statement import Evidence, Statement, numeral, numerals
from polyopt.check.check import Program, Rows, digest

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler


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
    """Take from the heavier side, in place, until Σ β = 0."""
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


def save_claims(
    path: str | Path,
    evidence: Sequence[Evidence],
    *,
    scaler: StandardScaler | None = None,
    table: str | Path | None = None,
    target: str | int = -1,
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Write claims, one for each pair of classes; see :meth:`polyopt.certificates.Certificate.save`.

    Returns
    -------
    list of dict
        The claims as they are in the file.
    """
    if not evidence:
        raise ValueError(
            "this certificate has no statement that can be saved: its program is of no known form"
        )
    if data is not None and (len(evidence) > 1 or scaler is not None or table is not None):
        raise ValueError("data are written for two classes, as the machine saw them")
    layout, claims = {} if table is None else {"table": _layout(table, target)}, []
    for part in evidence:
        statement = part.state()
        if data is None:
            told = _data(statement, part, scaler) | layout
        else:
            told = _data(statement, Evidence(part.state))
        claims.append({"title": statement.title, "data": told, **claim_of(statement)})
        if data is not None:
            write_text(data, _svmlight(statement))
    whole = {"format": "polyopt claim", "version": 2, "claims": claims}
    write_text(path, json.dumps(whole, ensure_ascii=True, separators=(",", ":")) + "\n")
    return claims


def claim_of(statement: Statement) -> dict[str, Any]:
    """Program, point, multipliers and claim of a statement, both points made feasible."""
    y = [int(s) for s in statement.y]
    program = Program(statement.program, cells_of(statement.X), statement.X.shape[1], y)
    if statement.kind == "infeasible":
        ray = {name: [numerals(part) for part in parts] for name, parts in statement.multipliers.items()}
        parts = {"point": {}, "multipliers": {"rows": ray}, "claim": {}}
        return {"kind": "infeasible", "program": statement.program, **parts}
    faces, b = feasible_point(program, statement)
    point = {"w": [numerals(w) for w in faces], "b": [numeral(v) for v in b]}
    value, slopes = program.value(point)
    if statement.tree is None:
        multipliers, bound = _proof(program, statement, faces, slopes)
    else:
        multipliers, bound = statement.tree, Fraction(statement.bound)
    high, low = _rounded(value, 1, statement.bits), _rounded(bound, -1, statement.bits)
    claim = {"value": numeral(high), "bound": numeral(low), "gap": numeral(_rounded(high - low, 1, 53))}
    return {
        "kind": "bounds",
        "program": statement.program,
        "point": point,
        "multipliers": multipliers,
        "claim": claim,
    }


def _proof(
    program: Program, statement: Statement, faces: list[list[Fraction]], slopes: list[list[Fraction]]
) -> tuple[dict[str, Any], Fraction]:
    """Feasible multipliers as in the file, and their bound."""
    made = feasible_multipliers(program, statement.multipliers, statement.bits)
    multipliers = _told(program, made, faces)
    gain, price = program.bound(multipliers, slopes)
    if gain < price:  # no multipliers at all prove more
        nothing = {name: [[Fraction(0)] * program.samples.n] * program.faces for name in made}
        multipliers = _told(program, feasible_multipliers(program, nothing), faces)
        gain, price = program.bound(multipliers, slopes)
    return multipliers, gain - price


def _told(
    program: Program, made: dict[str, list[list[Fraction]]], faces: list[list[Fraction]]
) -> dict[str, Any]:
    """Multipliers as in the file, with those of groups and the faces' shares, if there are any."""
    told: dict[str, Any] = {
        "rows": {name: [numerals(part) for part in parts] for name, parts in made.items()}
    }
    if not program.grouped and program.shape == "square":
        return told
    betas = [[Fraction(0)] * program.samples.n for _ in range(program.faces)]
    for rows in program.rows:
        rows.pull(made[rows.name], betas)
    held: list[list[Fraction]] = [[]] * program.faces
    if program.grouped:
        held = held_by_groups(program, [program.through(beta, False)[0] for beta in betas], faces)
        told["held"] = [numerals(q) for q in held]
    if program.shape == "worst":
        parts = enumerate(zip(betas, held, strict=True))
        prices = [program.price(k, beta, Fraction(1), q) for k, (beta, q) in parts]
        told["shares"] = [numeral(share) for share in shares_of([math.sqrt(float(v)) for v in prices])]
    return told


def _rounded(value: Fraction, way: int, bits: int) -> Fraction:
    """A number of so many bits at least that large (way 1) or at most (-1)."""
    size = value.numerator.bit_length() - value.denominator.bit_length()
    unit = Fraction(2) ** max(size - bits + 1, -1074)
    return -way * ((-way * value) // unit) * unit


def _layout(table: str | Path, target: str | int) -> dict[str, Any]:
    """Separator, header and label column of a CSV table, as in the file."""
    from polyopt.datasets.source import open_source
    from polyopt.datasets.tables import find_layout, separator_of

    source = open_source(table)
    separator = separator_of(source, None)
    found = find_layout(source, target, separator, decimal=".")
    return {"separator": separator, "header": found.header is not None, "target": found.target}


def _data(
    statement: Statement,
    part: Evidence,
    scaler: StandardScaler | None = None,
) -> dict[str, Any]:
    cells = cells_of(statement.X)
    rows = np.arange(len(statement.y)) if part.rows is None else np.asarray(part.rows)
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    told: dict[str, Any] = {
        "features": statement.X.shape[1],
        "labels": {"-1": part.names[0], "+1": part.names[1]},
        "rows": [[int(run[0]), int(run[-1]) + 1] for run in np.split(rows, breaks)],
        "sha256": digest(cells, statement.X.shape[1], [int(s) for s in statement.y]),
    }
    if scaler is not None:
        if scaler.with_mean:
            told |= {"shift": numerals(scaler.mean_), "divide": numerals(scaler.scale_)}
        else:
            told["factor"] = numerals(1.0 / scaler.scale_)
    if part.factor != 1.0:
        told["times"] = numeral(part.factor)
    return told


def cells_of(X: Matrix) -> list[dict[int, float]]:
    """The samples as the checker has them: doubles by column, those that are 0 left out."""
    if sp.issparse(X):
        rows = canonical(as_csr(X, float))
        parts = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        at, values = rows.indices.tolist(), rows.data.tolist()
        return [dict(zip(at[a:z], values[a:z], strict=True)) for a, z in parts]
    return [{j: x for j, x in enumerate(row) if x} for row in np.asarray(X, dtype=float).tolist()]


def _svmlight(statement: Statement) -> str:
    lines = (
        " ".join([f"{int(s):+d}", *(f"{j + 1}:{x!r}" for j, x in row.items())])
        for s, row in zip(statement.y, cells_of(statement.X), strict=True)
    )
    return "\n".join(lines) + "\n"
