"""The file of a claim: digests of the data, the program, both points repaired, and the claim in numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.language.types import as_csr, canonical
from polyopt.base.files import write_text
from polyopt.certificates.claims.repair import (
    feasible_multipliers,
    feasible_point,
    held_by_groups,
    shares_of,
)
from polyopt.certificates.claims.statement import Evidence, numeral, numerals
from polyopt.check.check import Program, digest

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

    from formulations.language.types import Matrix
    from polyopt.certificates.claims.statement import Statement

__all__ = ["cells_of", "claim_of", "save_claims"]


def save_claims(
    path: str | Path,
    evidence: Sequence[Evidence],
    *,
    scaler: StandardScaler | None = None,
    target: str | int | None = None,
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
    if data is not None and (len(evidence) > 1 or scaler is not None):
        raise ValueError("data are written for two classes, as the machine saw them")
    claims = []
    for part in evidence:
        statement = part.state()
        told = (
            _data(statement, part, scaler, target) if data is None else _data(statement, Evidence(part.state))
        )
        claims.append({"title": statement.title, "data": told, **claim_of(statement)})
        if data is not None:
            write_text(data, _svmlight(statement))
    whole = {"format": "polyopt claim", "version": 1, "claims": claims}
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
    """Feasible multipliers as in the file, and what they prove."""
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
    """Multipliers as in the file, with what groups hold and the faces' shares, where there are such."""
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


def _data(
    statement: Statement,
    part: Evidence,
    scaler: StandardScaler | None = None,
    target: str | int | None = None,
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
    if target is not None:
        told["target"] = target
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
