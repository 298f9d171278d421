"""Certificates of optimality: the value of a point, a proven bound on the optimum, residuals, and a claim.

A certificate is computed from the data and the solution vectors only. Slacks, objectives and bounds are not
taken from a solver, but computed anew. The bound is the dual objective at a point that has first been made
exactly dual feasible.

A row of a program is a family of constraints with the same name, one for each sample. A row is hard if its
constraints have no slack.

Read in this order: :class:`Residual`, the violation of one optimality condition; :class:`Claim`;
:class:`Certificate`; :func:`conclude` and its two companions, which derive the claim; :func:`combine`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from formulations.language.display import Shown, Summary, Table
from polyopt.certificates.claims.statement import Evidence
from polyopt.linalg.rounding import Ball

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table as RichTable
    from sklearn.preprocessing import StandardScaler


_REFUTED = "The bound that the solver states is above the value of a feasible point, so it is ignored."
_OVERFLOW = "The values overflow double precision; scale the data."


@dataclass(frozen=True)
class Residual:
    """The largest violation of one optimality condition.

    Attributes
    ----------
    condition : str
        ``"primal"``, ``"sign"``, ``"stationarity"`` or ``"complementarity"``.
    row : str
        The row or variable that the condition belongs to.
    value : float
        The violation in its own units.
    relative : float
        The violation divided by the scale of the quantities compared; it is compared with the tolerance.
    worst : int or None
        The index of the sample (or coordinate) with the largest violation; None for a single condition, or if
        nothing is violated.
    """

    condition: str
    row: str
    value: float
    relative: float
    worst: int | None = None

    @property
    def label(self) -> str:
        """Condition, row and worst index as a phrase, such as ``"sign of alpha[17]"``."""
        index = "" if self.worst is None else f"[{self.worst}]"
        return f"{self.condition} of {self.row}{index}"


def residual(condition: str, row: str, violation: NDArray[Any], scale: float) -> Residual:
    """Return the largest violation, at least 0, as a residual; a `scale` of 0 leaves the value undivided."""
    flat = np.atleast_1d(violation).ravel()
    position = int(np.argmax(flat))  # of the first NaN if there is one
    value = float(flat[position])
    value = value if np.isnan(value) else max(value, 0.0) + 0.0  # never -0.0
    worst = position if not value <= 0 and flat.size > 1 else None
    return Residual(condition, row, value, float(value / scale if scale > 0 else value), worst)


class Claim(Enum):
    """The claims that a certificate can make, the strongest first; each value is a sentence."""

    OPTIMAL = "The point is optimal within the tolerance."
    SOLVERS_WORD = "A solver states that the point is optimal within the tolerance; that is not proven here."
    STATIONARY = "The point is a fixed point of its outer loop, optimal for its assignment."
    CONDITIONS = "The optimality conditions hold within the tolerance; no bound is proven."
    SUBOPTIMAL_BY = "The point is feasible and within the stated amount of the optimum."
    INFEASIBLE = "No point is feasible: the multipliers form a ray that proves it."
    NONE = "Nothing is proven about the point."
    CONTRADICTION = (
        "The value lies below the bound by more than rounding, so one of them is not what it is said to be: "
        "nothing is proven about the point."
    )

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """The proof of a point's quality.

    Attributes
    ----------
    program : str
        The program the point belongs to.
    claim : Claim
        What is proven.
    primal_value : float
        Upper bound on the objective at the point: the slacks are recomputed from the data, and the rounding
        error of the evaluation is added. If the point violates a hard row, it is scaled to a feasible one
        first.
    dual_value : float
        A proven bound on the optimum: the dual objective at an exactly feasible dual point, minus the
        rounding error of the evaluation.
    residuals : tuple of Residual
        One residual for each optimality condition that can be checked with the vectors of the point.
    tol : float
        The relative tolerance of the gap and of every residual.
    scope : str
        The problem that the bound is valid for, such as the program for one assignment of samples to faces.
    note : str
        Further sentences for the reader.
    sense : str
        ``"minimise"`` or ``"maximise"``.
    rounding : float
        The rounding errors of both values, which are included in them.
    stated : float or None
        A bound that a solver states without proof.
    evidence : tuple of Evidence
        The content of a claim file, one Evidence for each program; empty if the file format does not cover
        the program.
    """

    program: str
    claim: Claim
    primal_value: float
    dual_value: float
    residuals: tuple[Residual, ...]
    tol: float = 1e-6
    scope: str = "the program"
    note: str = ""
    sense: str = "minimise"
    rounding: float = 0.0
    stated: float | None = None
    evidence: tuple[Evidence, ...] = field(default=(), repr=False, compare=False)

    @property
    def gap(self) -> float:
        """Absolute duality gap: an upper bound on the point's distance from the optimal value."""
        if self.sense == "minimise":
            return self.primal_value - self.dual_value
        return self.dual_value - self.primal_value

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger of the two values in size, as in :func:`relative_gap`."""
        return relative_gap(self.primal_value, self.dual_value)

    @property
    def eps(self) -> float:
        """The amount in ``suboptimal_by``: the gap, never below zero."""
        return max(self.gap, 0.0)

    @property
    def worst(self) -> Residual | None:
        """The residual with the largest relative value; None without residuals."""
        return max(self.residuals, key=lambda r: r.relative, default=None)

    @property
    def is_optimal(self) -> bool:
        """True if the claim is ``optimal``."""
        return self.claim is Claim.OPTIMAL

    @property
    def sentence(self) -> str:
        """The claim in full, with its amount and its scope."""
        text = str(self.claim)
        if self.claim is Claim.SUBOPTIMAL_BY:
            amount = f"{self.eps:.3g} ({self.relative_gap:.2g} relative)"
            text = f"Within {amount} of the optimum of {self.scope}, proven."
        return f"{text} {self.note}".strip()

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values, for JSON."""
        worst = self.worst
        return {
            "program": self.program, "claim": self.claim.name.lower(), "sentence": self.sentence,
            "scope": self.scope, "primal_value": self.primal_value, "dual_value": self.dual_value,
            "gap": self.gap, "relative_gap": self.relative_gap, "rounding": self.rounding,
            "stated": self.stated, "tol": self.tol, "worst": None if worst is None else worst.label,
            "residuals": [vars(residual) for residual in self.residuals],
        }  # fmt: skip

    def save(
        self, path: str | Path, *, scaler: StandardScaler | None = None, table: str | Path | None = None,
        target: str | int = -1, data: str | Path | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Write a claim file, which the standalone program ``polyopt/check/check.py`` verifies.

        Point and multipliers are first made feasible in rational numbers, which widens the gap slightly.

        Parameters
        ----------
        path : str or Path
            The file; its format is described in ``polyopt/check/FORMAT.md``.
        scaler : StandardScaler, optional
            Scaler of the samples of the data to be checked, which the checker applies as well.
        table : str or Path, optional
            The data to be checked, if they are a CSV table; by default they are an svmlight file.
        target : str or int
            The label column of the table, by name or index.
        data : str or Path, optional
            A file to be written, with the machine's samples in svmlight form, for the checker to read.

        Returns
        -------
        list of dict
            The claims, one for each pair of classes.

        Raises
        ------
        ValueError
            The file format does not cover the program.
        """
        from polyopt.certificates.claims.file import save_claims

        return save_claims(path, self.evidence, scaler=scaler, table=table, target=target, data=data)

    def refine(self, digits: int = 30) -> Certificate:
        """Return a certificate of the optimum near the point; its claim file has a gap below 10**-digits.

        See :func:`polyopt.certificates.claims.refine.refined`. The two values of the certificate are doubles.
        """
        from polyopt.certificates.claims.refine import refined

        evidence, value, bound = refined(self.evidence, digits)
        is_optimal = self.scope == self.program and relative_gap(value, bound) <= self.tol
        proven = (Claim.OPTIMAL if is_optimal else Claim.SUBOPTIMAL_BY, value, bound)
        return Certificate(self.program, *proven, (), self.tol, self.scope, self.note, evidence=evidence)

    def to_frame(self) -> pd.DataFrame:
        """Return the residuals as a frame: condition, row, value, relative, worst."""
        import pandas as pd

        columns = ["condition", "row", "value", "relative", "worst"]
        return pd.DataFrame(map(vars, self.residuals), columns=columns).astype({"worst": "Int64"})

    def table(self) -> RichTable:
        """Return the certificate as a rich table."""
        from rich.table import Table

        table = Table(title=f"Certificate: {self.program}", caption=self.sentence, title_justify="left")
        table.caption_justify = "left"
        for column in ("condition", "row", "amount", "relative", "worst at", f"to {self.tol:.0e}"):
            is_number = column in ("amount", "relative", "worst at")
            table.add_column(
                column, justify="right" if is_number else "left", no_wrap=column.startswith("to ")
            )
        table.add_row("objective", "primal", f"{self.primal_value:.10g}")
        table.add_row("objective", "dual bound", f"{self.dual_value:.10g}")
        table.add_row("objective", "rounding", f"{self.rounding:.2e}")
        if self.stated is not None:
            table.add_row("objective", "stated", f"{self.stated:.10g}")
        table.add_row("gap", "", f"{self.gap:.2e}", f"{self.relative_gap:.2e}", "", self._gap_in_words())
        table.add_section()
        for row in self._residual_rows():
            table.add_row(*row)
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get().rstrip()

    def _summary(self) -> Summary:
        facts = [
            ("claim", self.sentence),
            ("value", f"{self.primal_value:.10g}"),
            ("dual bound", f"{self.dual_value:.10g}"),
            ("gap", f"{self.gap:.2e}, relative {self.relative_gap:.2e} (tolerance {self.tol:.0e})"),
            ("rounding", f"{self.rounding:.2e}"),
        ]
        if self.stated is not None:
            facts.append(("stated", f"{self.stated:.10g} (by the solver's word)"))
        if self.worst is not None:
            facts.append(("worst", f"{self.worst.label}, relative {self.worst.relative:.2e}"))
        rows = self._residual_rows()
        columns = ("condition", "row", "violation", "relative", "worst at", f"to {self.tol:.0e}")
        tables = (Table("optimality conditions", columns, rows),) if rows else ()
        return Summary(f"Certificate: {self.program}", tuple(facts), tables)

    def _gap_in_words(self) -> str:
        """Return "closed" if the gap is within the tolerance, else "within … %" of the optimum, or "open"."""
        if self.relative_gap <= self.tol:
            return "closed"
        proven = self.gap >= 0.0 and math.isfinite(self.relative_gap)
        return f"within {100.0 * self.relative_gap:.2g} %" if proven else "open"

    def _residual_rows(self) -> tuple[tuple[str, ...], ...]:
        """Return rows of condition, row, violation, relative violation, worst sample, and "holds" or not."""
        return tuple(
            (
                r.condition, r.row, f"{r.value:.2e}", f"{r.relative:.2e}",
                "–" if r.worst is None else str(r.worst),
                "holds" if r.relative <= self.tol else "violated",
            )
            for r in self.residuals
        )  # fmt: skip


def conclude(
    program: str, primal: Ball | float, dual: Ball | float, residuals: Sequence[Residual], tol: float, *,
    feasible: bool = True, reached: Claim = Claim.OPTIMAL, scope: str = "", notes: Sequence[str] = (),
    stated: float | None = None, evidence: Sequence[Evidence] = (),
) -> Certificate:  # fmt: skip
    """Derive the claim from values and residuals, and return the certificate.

    program: name of the program that the point belongs to, a minimisation.
    primal, dual: value of the point and bound on the optimum. An interval counts with its safe end: the upper
        one of the value, the lower one of the bound. A plain number counts as exact.
    residuals: one for each optimality condition that was checked.
    feasible: False if the point violates a hard row; then nothing is claimed.
    reached: the claim if gap and residuals are within `tol`.
    scope: the problem that the bound is valid for; the program by default.
    notes: sentences for the reader; empty ones are left out.
    stated: a bound that only a solver states. If the gap to it is within `tol`, but the gap to the proven
        bound is not, the claim is ``solvers_word``. If it is above the value of a feasible point, it is
        ignored.
    evidence: the content of a claim file.
    """
    primal, dual = Ball.of(primal), Ball.of(dual)
    primal_value = float(primal.upper if primal.rad else primal.mid)
    dual_value = float(dual.lower if dual.rad else dual.mid)
    notes = [note for note in notes if note]
    if stated is not None and np.isnan(stated):
        stated = None
    if stated is not None and stated > primal_value + tol * abs(primal_value):
        notes.append(_REFUTED)
        stated = None
    conditions_hold = all(r.relative <= tol for r in residuals)
    if np.isnan([primal_value, dual_value]).any() or np.isinf(primal_value):
        claim = Claim.NONE
        notes = notes or [_OVERFLOW]
    elif not feasible:
        claim = Claim.NONE
    elif primal_value < dual_value:
        claim = Claim.CONTRADICTION
    elif conditions_hold and relative_gap(primal_value, dual_value) <= tol:
        claim = reached
    elif conditions_hold and stated is not None and relative_gap(primal_value, stated) <= tol:
        claim = Claim.SOLVERS_WORD
    else:
        claim = Claim.SUBOPTIMAL_BY if dual_value > -np.inf else Claim.NONE
    return Certificate(
        program=program, claim=claim, primal_value=primal_value, dual_value=dual_value,
        residuals=tuple(residuals), tol=tol, scope=scope or program, note=" ".join(notes),
        rounding=float(np.nan_to_num(primal.rad + dual.rad, posinf=np.inf)), stated=stated,
        evidence=tuple(evidence),
    )  # fmt: skip


def conclude_infeasible(program: str, value: float, residuals: Sequence[Residual], tol: float) -> Certificate:
    """Return a certificate that no point is feasible; the caller has proven a ray of multipliers."""
    return Certificate(program, Claim.INFEASIBLE, value, np.inf, tuple(residuals), tol)


def weakest(claims: Sequence[Claim]) -> Claim:
    """Return the weakest of several claims."""
    return max(claims, key=list(Claim).index)


def relative_gap(primal_value: float, dual_value: float) -> float:
    """Return ``|p - d| / max(|p|, |d|)``: 0 if both are 0, infinite if one of them is infinite."""
    scale = max(abs(primal_value), abs(dual_value))
    if not np.isfinite(scale):
        return np.inf
    difference = abs(primal_value - dual_value)
    return difference / scale if scale > 0 else difference


def combine(
    certificates: Sequence[Certificate], names: Sequence[str], parts: str = "pairs of classes"
) -> Certificate:
    """Return the certificate of a sum of programs, such as one for each pair of classes.

    Its values are the sums of the values, its claim is the weakest one, and for each condition it has the
    worst residual, with the name of its part. There must be at least one certificate, all of minimisations.
    """
    worst: dict[tuple[str, str], Residual] = {}
    for certificate, name in zip(certificates, names, strict=True):
        for residual in certificate.residuals:
            key = (residual.condition, residual.row)
            if key not in worst or residual.relative > worst[key].relative:
                worst[key] = replace(residual, row=f"{residual.row} ({name})")
    evidence = tuple(part for certificate in certificates for part in certificate.evidence)
    return Certificate(
        program=f"{certificates[0].program}, {len(certificates)} {parts}",
        claim=weakest([c.claim for c in certificates]),
        primal_value=sum(c.primal_value for c in certificates),
        dual_value=sum(c.dual_value for c in certificates),
        residuals=tuple(worst.values()), tol=certificates[0].tol,
        scope=f"{certificates[0].scope}, summed over {len(certificates)} {parts}",
        evidence=evidence if all(c.evidence for c in certificates) else (),
        note=" ".join(dict.fromkeys(c.note for c in certificates if c.note)),
    )  # fmt: skip
