"""Claim files: a program, a feasible point, feasible multipliers, and the bounds that both prove.

A program is the checker's :class:`polyopt.check.check.Program`: faces w_k (weight vectors; an SVM has one),
families of constraints, and penalties. An object `row` is a family: in it, sample i has a constraint for
each face k in at_i. The violation t = kink − side_i f_ik, where f_ik is the score, costs cap_i times a loss
of t; a cap of inf demands t ≤ 0. The cap is also the upper bound on the multiplier. If the family's ``pays``
is not "sum", the constraints of a sample have one loss together, and their multipliers share one cap.

Points and multipliers are made feasible in rational arithmetic, so that a claim is a theorem; the checker
(``polyopt/check/check.py``) verifies it. Multipliers are rounded down to a grid and clipped to their caps. If
rounding breaks the equation Σ β_i = 0 of the intercept, where β_i = Σ side_i · (multipliers of sample i), the
multipliers of the side ±1 with the larger sum are decreased. A point is clipped to the bounds of the weights,
and scaled until all constraints without slack hold.
"""

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.language.types import Matrix, as_csr, canonical
from polyopt.base.files import write_text
from polyopt.certificates.claims.statement import Evidence, Multipliers, Statement, Vector, numeral, numerals
from polyopt.check.check import Program, Rows, conjugate, digest

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler


def feasible_multipliers(program: Program, multipliers: dict[str, Any], bits: int = 53) -> Multipliers:
    """Return multipliers near these that satisfy signs, caps and Σ β_i = 0 exactly, by family and face.

    multipliers: by the name of the family, an array (K, n) of floats, or K lists of n fractions.
    bits: significant bits of the largest multiplier; the grid has 9 more.
    """
    families = [(row, multipliers[row.name]) for row in program.rows if row.name in multipliers]
    largest = max((float(np.max(np.abs(np.asarray(m, dtype=float)))) for _, m in families), default=0.0)
    grid = Fraction(2) ** (bits + 9 - int(np.frexp(largest or 1.0)[1]))
    # Multipliers are whole numbers in units of 1/grid until they are balanced.
    rounded = [
        (row, _clip_to_caps(row, [[math.floor(Fraction(v) * grid) for v in values] for values in m], grid))
        for row, m in families
    ]
    if program.intercept:
        for k in range(program.faces):
            _restore_balance([(row, m[k]) for row, m in rounded], grid)
    feasible = {row.name: [[Fraction(v) / grid for v in values] for values in m] for row, m in rounded}
    for row, _ in families:
        if row.loss == "linear":
            _raise_to_caps(row, feasible[row.name])
    return feasible


def square_multipliers(program: Program, faces: list[Vector]) -> Multipliers:
    """Return the multipliers of families with squares of centred scores: their derivatives at these faces."""
    found: Multipliers = {}
    for row in (row for row in program.rows if row.loss == "square"):
        found[row.name] = []
        for w in faces:
            scores = program.features.scores(w)[0]
            mean = sum(c * f for c, f in zip(row.cap, scores, strict=True)) / sum(row.cap)
            sides = zip(row.side, row.cap, scores, strict=True)
            found[row.name].append([-s * c * (f - mean) for s, c, f in sides])
    return found


def _clip_to_caps(row: Rows, m: list[list[int]], grid: Fraction) -> list[list[int]]:
    """Return multipliers (by face, in units of 1/grid) from 0 to their caps, and 0 without a constraint.

    If the constraints of a sample share a cap, the largest multipliers are decreased first.
    """
    clipped = [[0] * len(values) for values in m]
    for i, (cap, faces) in enumerate(zip(row.cap, row.at, strict=True)):
        limit = None if cap == math.inf else math.floor(cap * grid)
        for k in faces:
            clipped[k][i] = max(0, m[k][i] if limit is None else min(m[k][i], limit))
        if limit is not None and row.pays != "sum":
            excess = max(sum(clipped[k][i] for k in faces) - limit, 0)
            for k in sorted(faces, key=lambda k: (-clipped[k][i], k)):
                decrease = min(excess, clipped[k][i])
                clipped[k][i] -= decrease
                excess -= decrease
    return clipped


def _raise_to_caps(row: Rows, m: list[Vector]) -> None:
    """Raise multipliers (by face) of a linear loss, which must equal their caps, in place.

    If the constraints of a sample share a cap, the largest multiplier is raised.
    """
    for i, (cap, faces) in enumerate(zip(row.cap, row.at, strict=True)):
        if row.pays == "sum":
            for k in faces:
                m[k][i] = cap
        elif faces:
            k = max(faces, key=lambda k: m[k][i])
            m[k][i] += cap - sum(m[k][i] for k in faces)


def _restore_balance(families: list[tuple[Rows, list[int]]], grid: Fraction) -> None:
    """Decrease multipliers of the side ±1 with the larger sum in proportion, in place, until Σ β_i = 0.

    Multipliers below their caps are decreased first: the dual objective is nearly stationary in them.
    """
    # The sum over side 1 minus that over side -1
    imbalance = sum(sum(s * v for s, v in zip(row.side, m, strict=True) if v) for row, m in families)
    side, imbalance = (1 if imbalance > 0 else -1), abs(imbalance)
    for only_free in (True, False):
        entries = [
            (m, i)
            for row, m in families
            for i, (v, cap) in enumerate(zip(m, row.cap, strict=True))
            if v and row.side[i] == side
            if not only_free or cap == math.inf or v < math.floor(cap * grid)
        ]
        total = sum(m[i] for m, i in entries)
        if not imbalance or not total:
            continue
        decrease = min(imbalance, total)
        imbalance -= decrease
        decreases = [m[i] * decrease // total for m, i in entries]
        remainder = decrease - sum(decreases)  # lost in the divisions
        for (m, i), change in zip(entries, decreases, strict=True):
            extra = min(remainder, m[i] - change)
            m[i] -= change + extra
            remainder -= extra


def feasible_point(program: Program, statement: Statement) -> tuple[list[Vector], Vector]:
    """Return faces and intercepts: the statement's point, clipped and scaled until it is feasible.

    Raise ValueError if no multiple of the point satisfies the constraints without slack.
    """
    faces = [[Fraction(float(v) if isinstance(v, np.floating) else v) for v in w] for w in statement.W]
    b = [Fraction(v) for v in statement.b]
    faces = [
        [min(max(v, low), high) for v, (*_, low, high) in zip(w, penalties, strict=True)]
        for w, penalties in zip(faces, program.prices, strict=True)
    ]
    hard = [row for row in program.rows if math.inf in row.cap]
    if not hard:
        return faces, b
    scale = _feasible_scale(program, hard, faces, b, 1 << statement.bits - 3)
    return [[scale * v for v in w] for w in faces], [scale * v for v in b]


def _feasible_scale(
    program: Program, hard: list[Rows], faces: list[Vector], b: Vector, grid: int
) -> Fraction:
    """Return the scale nearest to 1, a multiple of 1/grid, with which all constraints without slack hold.

    Programs with such constraints have one face.
    """
    scores, error = program.features.scores(faces[0])
    pairs = [  # signed scores u and kinks c: scale · u ≥ c is demanded
        (side * (score + b[0]) - error, row.kink)
        for row in hard
        for side, cap, score in zip(row.side, row.cap, scores, strict=True)
        if cap == math.inf
    ]
    lower = max((c / u for u, c in pairs if u > 0), default=Fraction(0))
    upper: Any = min((c / u for u, c in pairs if u < 0), default=math.inf)
    nearest = math.ceil(lower * grid) if lower > 1 else math.floor(min(upper, 1) * grid)
    scale = Fraction(nearest, grid)
    if scale <= 0 or not lower <= scale <= upper or any(u == 0 < c for u, c in pairs):
        raise ValueError("no multiple of the point satisfies the rows without slack")
    return scale


def group_multipliers(program: Program, adjoints: list[Vector], faces: list[Vector]) -> list[Vector]:
    """Return multipliers q (K, m) of the group norms, of length at most r for each group of weights.

    The objective has r |W_g| for each group g of weights, over all faces, which is at least q'W_g. So the
    dual bound has the conjugate of the other penalties at v − q, where v (K, m) are the adjoints X'β_k. There
    are two candidates for q: along v, soft-thresholded by the l1 penalty, and along W, which is better if a
    weight is at a bound; the one with the smaller conjugate is returned. If only the largest face is
    penalised (shape "worst"), q is along W, unless W is 0.
    """
    r = float(program.group)
    unit = 2.0 ** (int(np.frexp(r)[1]) - 60)
    Q = [[Fraction(0)] * program.width for _ in adjoints]
    for group in set(program.groups) - {0}:
        entries = [(k, j) for k in range(len(Q)) for j, g in enumerate(program.groups) if g == group]
        penalties = [program.prices[k][j] for k, j in entries]
        v, w = ([vectors[k][j] for k, j in entries] for vectors in (adjoints, faces))
        thresholded = [_soft_threshold(*pair) for pair in zip(v, penalties, strict=True)]
        candidates = []
        for along, has_full_length in ((thresholded, False), (w, True)):
            direction = np.array(along, dtype=float)
            length = float(np.linalg.norm(direction))
            if length > 0.0:
                scale = (1.0 - 1e-13) * r / length  # 1e-13: more than the rounding error of the length
                q = (scale if has_full_length else min(scale, 1.0)) * direction
                candidates.append([Fraction(value) for value in np.trunc(q / unit) * unit])

        if program.shape == "worst":
            candidates = candidates[-1:]
        best = min(candidates, key=partial(_conjugate_of_rest, v, penalties), default=[])
        for (k, j), value in zip(entries, best, strict=False):
            Q[k][j] = value
    return Q


def _conjugate_of_rest(v: Vector, penalties: list[Any], q: Vector) -> Fraction:
    """Return the conjugate of the penalties at v - q."""
    rest = zip(v, q, penalties, strict=True)
    return sum((conjugate(a - b, p, Fraction(1), Fraction(0)) for a, b, p in rest), Fraction(0))


def _soft_threshold(v: Fraction, penalty: tuple[Any, ...]) -> Fraction:
    """Return v, shrunk towards 0 by the l1 penalty, and 0 if the weight may not have the sign of v."""
    _, l1, _, low, high = penalty
    least, largest = -v if low < 0 else l1, v if high > 0 else l1
    return Fraction(max(largest - l1, 0) - max(least - l1, 0))


def face_weights(lengths: list[float]) -> Vector:
    """Return nonnegative lengths divided by their sum, on a grid of 50 bits; positive ones stay positive.

    They are the multipliers t_k, of sum 1, of a penalty max_k h|w_k|².
    """
    total = sum(lengths)
    if not total > 0.0:
        return [Fraction(1), *[Fraction(0)] * (len(lengths) - 1)]
    weights = [Fraction(max(round(v / total * (1 << 50)), v > 0.0), 1 << 50) for v in lengths]
    k = max(range(len(weights)), key=weights.__getitem__)
    weights[k] += 1 - sum(weights)
    return weights


def save_claims(
    path: str | Path, evidence: Sequence[Evidence], *, scaler: "StandardScaler | None" = None,
    table: str | Path | None = None, target: str | int = -1, data: str | Path | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Write claims, one for each pair of classes, and return them as they are in the file.

    The parameters are those of :meth:`polyopt.certificates.Certificate.save`.
    """
    if not evidence:
        raise ValueError(
            "this certificate has no statement that can be saved: its program is of no known form"
        )
    if data is not None and (len(evidence) > 1 or scaler is not None or table is not None):
        raise ValueError("data are written for two classes, as the machine saw them")
    layout = {} if table is None else {"table": _layout(table, target)}
    claims = []
    for part in evidence:
        statement = part.state()
        if data is None:
            data_fields = _data_fields(statement, part, scaler) | layout
        else:
            data_fields = _data_fields(statement, Evidence(part.state))  # the samples are a file of their own
            write_text(data, _svmlight(statement))
        claims.append({"title": statement.title, "data": data_fields, **claim_of(statement)})
    content = {"format": "polyopt claim", "version": 3, "claims": claims}
    write_text(path, json.dumps(content, ensure_ascii=True, separators=(",", ":")) + "\n")
    return claims


def claim_of(statement: Statement) -> dict[str, Any]:
    """Return the fields of a claim in the file; the statement's point and multipliers are made feasible."""
    y = [int(s) for s in statement.y]
    program = Program(statement.program, cells_of(statement.X), statement.X.shape[1], y)
    if statement.kind == "infeasible":  # the multipliers are a ray; there is no point
        ray = {name: [numerals(m) for m in by_face] for name, by_face in statement.multipliers.items()}
        return {"kind": "infeasible", "program": statement.program, "multipliers": {"rows": ray}}
    faces, b = feasible_point(program, statement)
    point = {"w": [numerals(w) for w in faces]} | ({"b": [numeral(v) for v in b]} if b else {})
    value = program.value(point)
    if statement.tree is None:
        multipliers, bound = _multipliers_and_bound(program, statement, faces)
    else:
        multipliers, bound = statement.tree, Fraction(statement.bound)
    upper, lower = _round_up(value, statement.bits), -_round_up(-bound, statement.bits)
    claim = {"value": numeral(upper), "bound": numeral(lower), "gap": numeral(_round_up(upper - lower, 53))}
    return {
        "kind": "bounds", "program": statement.program, "point": point, "multipliers": multipliers,
        "claim": claim,
    }  # fmt: skip


def _multipliers_and_bound(
    program: Program, statement: Statement, faces: list[Vector]
) -> tuple[dict[str, Any], Fraction]:
    """Return feasible multipliers as in the file, and their bound; zeros if it is negative."""
    feasible = feasible_multipliers(program, statement.multipliers, statement.bits)
    feasible |= square_multipliers(program, faces)
    multipliers = _multiplier_fields(program, feasible, faces)
    gain, price = program.bound(multipliers)
    if gain < price:
        zeros = {name: [[Fraction(0)] * program.n] * program.faces for name in feasible}
        multipliers = _multiplier_fields(program, feasible_multipliers(program, zeros), faces)
        gain, price = program.bound(multipliers)
    return multipliers, gain - price


def _multiplier_fields(program: Program, multipliers: Multipliers, faces: list[Vector]) -> dict[str, Any]:
    """Return the file's field "rows"; also "held" (q) if there are groups, and "shares" (t) for "worst"."""
    rows = {name: [numerals(m) for m in by_face] for name, by_face in multipliers.items()}
    fields: dict[str, Any] = {"rows": rows}
    if not any(program.groups) and program.shape != "worst":
        return fields
    betas = program.betas(multipliers)
    Q = [[Fraction(0)] * program.width] * program.faces
    if any(program.groups):
        Q = group_multipliers(program, [program.features.pull(beta)[0] for beta in betas], faces)
        fields["held"] = [numerals(q) for q in Q]
    if program.shape == "worst":
        pairs = enumerate(zip(betas, Q, strict=True))
        conjugates = [program.price(k, beta, Fraction(1), q) for k, (beta, q) in pairs]
        fields["shares"] = [numeral(t) for t in face_weights([math.sqrt(float(v)) for v in conjugates])]
    return fields


def _round_up(value: Fraction, bits: int) -> Fraction:
    """Return `value`, rounded up to about so many bits, but to no finer grid than that of the doubles."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    unit = Fraction(2) ** max(exponent - bits + 1, -1074)
    return math.ceil(value / unit) * unit


def _layout(table: str | Path, target: str | int) -> dict[str, Any]:
    """Return separator, header and label column of a CSV table, as in the file."""
    from polyopt.datasets.source import open_source
    from polyopt.datasets.tables import find_layout, separator_of

    source = open_source(table)
    separator = separator_of(source, None)
    layout = find_layout(source, target, separator, decimal=".")
    return {"separator": separator, "header": layout.header is not None, "target": layout.target}


def _data_fields(
    statement: Statement, evidence: Evidence, scaler: "StandardScaler | None" = None
) -> dict[str, Any]:
    """Return the file's description of the data: labels, ranges of rows, digest, and preprocessing.

    `evidence` says where the samples are in the data set; runs of consecutive rows become ranges.
    """
    cells = cells_of(statement.X)
    rows = np.arange(len(statement.y)) if evidence.rows is None else np.asarray(evidence.rows)
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    fields: dict[str, Any] = {
        "features": statement.X.shape[1],
        "labels": {"-1": evidence.names[0], "+1": evidence.names[1]},
        "rows": [[int(run[0]), int(run[-1]) + 1] for run in np.split(rows, breaks)],
        "sha256": digest(cells, statement.X.shape[1], [int(s) for s in statement.y]),
    }
    if scaler is not None:
        if scaler.with_mean:
            fields |= {"shift": numerals(scaler.mean_), "divide": numerals(scaler.scale_)}
        else:
            fields["factor"] = numerals(1.0 / scaler.scale_)
    if evidence.factor != 1.0:
        fields["times"] = numeral(evidence.factor)
    return fields


def cells_of(X: Matrix) -> list[dict[int, float]]:
    """Return the samples as the checker has them: nonzero doubles by column."""
    if sp.issparse(X):
        rows = canonical(as_csr(X, float))
        ranges = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        columns, values = rows.indices.tolist(), rows.data.tolist()
        return [dict(zip(columns[start:stop], values[start:stop], strict=True)) for start, stop in ranges]
    return [{j: x for j, x in enumerate(row) if x} for row in np.asarray(X, dtype=float).tolist()]


def _svmlight(statement: Statement) -> str:
    """Return the samples as lines "label column:value ...", with columns from 1."""
    lines = (
        " ".join([f"{int(s):+d}", *(f"{j + 1}:{x!r}" for j, x in row.items())])
        for s, row in zip(statement.y, cells_of(statement.X), strict=True)
    )
    return "\n".join(lines) + "\n"
