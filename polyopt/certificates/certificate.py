"""The certificate: how far a point is from optimal, by which row, and with what proof.

A certificate is computed from the data and the vectors alone. Nothing that a solver states enters it: slacks,
objectives and bounds are evaluated anew, and a bound on the optimum is only ever the dual
objective at a point that has first been made exactly dual feasible.
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
        The row or variable the condition belongs to.
    value : float
        The violation in its own units.
    relative : float
        The violation over the scale of the quantities compared; this is what a tolerance is held to.
    worst : int or None
        The index of the sample (or coordinate) where it is worst; None for a single condition, and
        where there is no violation at all.
    """

    condition: str
    row: str
    value: float
    relative: float
    worst: int | None = None

    @property
    def label(self) -> str:
        """Condition, row and worst index in one word, such as ``"sign of alpha[17]"``."""
        where = "" if self.worst is None else f"[{self.worst}]"
        return f"{self.condition} of {self.row}{where}"


def residual(condition: str, row: str, violation: NDArray[Any], scale: float) -> Residual:
    """The worst entry of a vector of violations (positive parts count), relative to `scale`; 0: no scale."""
    flat = np.atleast_1d(violation).ravel()
    at = int(np.argmax(flat))  # the first NaN, where there is one
    value = flat[at] if np.isnan(flat[at]) else max(float(flat[at]), 0.0) + 0.0  # never -0.0
    worst = at if not value <= 0 and flat.size > 1 else None
    return Residual(condition, row, float(value), float(value / scale if scale > 0 else value), worst)


class Claim(Enum):
    """The claims of certificates, the strongest first; each value is a sentence."""

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
        Objective at the point, with the slacks recomputed from the data and raised by the rounding of its
        evaluation. Where the point breaks a hard row, it is the objective at the nearest feasible point on
        its ray.
    dual_value : float
        A proven bound on the optimum: the dual objective at an exactly feasible dual point, lowered by the
        rounding of its evaluation.
    residuals : tuple of Residual
        Every optimality condition that the vectors given let one check.
    tol : float
        The tolerance, relative, for the gap and for every residual.
    scope : str
        The subject of the bound, if that is less than the whole problem.
    note : str
        Anything a reader should know, as a sentence.
    sense : str
        ``"minimise"`` or ``"maximise"``: on which side of the optimum the point's value lies.
    rounding : float
        The amount by which the two values were moved apart to be true of real numbers.
    stated : float or None
        A bound that only a solver states: it proves nothing.
    evidence : tuple of Evidence
        The content of a file of the claim, one for each program; empty if there is no form for it.
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
        """Absolute duality gap: how far from optimal the point can be at most."""
        return (
            self.primal_value - self.dual_value
            if self.sense == "minimise"
            else self.dual_value - self.primal_value
        )

    @property
    def relative_gap(self) -> float:
        """The gap over the larger of the two values."""
        return relative_gap(self.primal_value, self.dual_value)

    @property
    def eps(self) -> float:
        """The amount in ``suboptimal_by``: the gap, never below zero."""
        return max(self.gap, 0.0)

    @property
    def worst(self) -> Residual | None:
        """The residual that is largest relative to its scale."""
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
        """Everything as plain values, for JSON."""
        worst = self.worst
        return {
            "program": self.program,
            "claim": self.claim.name.lower(),
            "sentence": self.sentence,
            "scope": self.scope,
            "primal_value": self.primal_value,
            "dual_value": self.dual_value,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "rounding": self.rounding,
            "stated": self.stated,
            "tol": self.tol,
            "worst": None if worst is None else worst.label,
            "residuals": [vars(residual) for residual in self.residuals],
        }

    def save(
        self, path: str | Path, *, scaler: StandardScaler | None = None, table: str | Path | None = None,
        target: str | int = -1, data: str | Path | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Write the claim as a file that ``polyopt/check/check.py``, copied anywhere, proves or refuses.

        Point and multipliers are made feasible in rational numbers first, which costs some of the gap.

        Parameters
        ----------
        path : str or Path
            The file; ``polyopt/check/FORMAT.md`` says what is in it.
        scaler : StandardScaler, optional
            Scaler of the samples of the data to be checked, which the checker applies as well.
        table : str or Path, optional
            The data to be checked, if they are a CSV table; by default they are an svmlight file.
        target : str or int
            The label column of the table: its name or its place.
        data : str or Path, optional
            Where to write the samples as the machine sees them, in svmlight form, for the checker to read.

        Returns
        -------
        list of dict
            The claims, one for each pair of classes.

        Raises
        ------
        ValueError
            A program that the format has no form for.
        """
        from polyopt.certificates.claims.file import save_claims

        return save_claims(path, self.evidence, scaler=scaler, table=table, target=target, data=data)

    def refine(self, digits: int = 30) -> Certificate:
        """The certificate of the optimum next to the point; the gap that it saves is below ``10**-digits``.

        See :func:`polyopt.certificates.claims.refine.refined`. The two values here are doubles.
        """
        from polyopt.certificates.claims.refine import refined

        made, value, bound = refined(self.evidence, digits)
        whole = self.scope == self.program and relative_gap(value, bound) <= self.tol
        proven = (Claim.OPTIMAL if whole else Claim.SUBOPTIMAL_BY, value, bound)
        return Certificate(self.program, *proven, (), self.tol, self.scope, self.note, evidence=made)

    def to_frame(self) -> pd.DataFrame:
        """The residuals as a frame: condition, row, value, relative, worst."""
        import pandas as pd

        columns = ["condition", "row", "value", "relative", "worst"]
        return pd.DataFrame(map(vars, self.residuals), columns=columns).astype({"worst": "Int64"})

    def table(self) -> RichTable:
        """The certificate as a rich table."""
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
        """Say "closed" if the gap is within the tolerance, else "within" so many per cent of the optimum."""
        if self.relative_gap <= self.tol:
            return "closed"
        proven = self.gap >= 0.0 and math.isfinite(self.relative_gap)
        return f"within {100.0 * self.relative_gap:.2g} %" if proven else "open"

    def _residual_rows(self) -> tuple[tuple[str, ...], ...]:
        """Condition, row, violation, relative violation, worst sample, and whether the condition holds."""
        return tuple(
            (
                r.condition, r.row, f"{r.value:.2e}", f"{r.relative:.2e}",
                "–" if r.worst is None else str(r.worst),
                "holds" if r.relative <= self.tol else "violated",
            )
            for r in self.residuals
        )  # fmt: skip


def conclude(
    program: str,
    primal: Ball | float,
    dual: Ball | float,
    residuals: Sequence[Residual],
    tol: float,
    *,
    feasible: bool = True,
    reached: Claim = Claim.OPTIMAL,
    scope: str = "",
    notes: Sequence[str] = (),
    stated: float | None = None,
) -> Certificate:
    """The certificate of these values and residuals: the one place where a claim is made.

    program: the program the point belongs to, a minimisation.
    primal, dual: value of the point and bound on the optimum. Of a ball the safe end is taken: the upper one
        of the value, the lower one of the bound. A plain number counts as exact.
    residuals: every optimality condition checked.
    feasible: False if the point breaks a hard row; then nothing is claimed.
    reached: the claim if gap and residuals are within `tol`.
    scope: subject of the bound; the program by default.
    notes: sentences for the reader, of which empty ones are left out.
    stated: a bound that only a solver states. If it is attained and the proven one is not, the claim is
        ``solvers_word``; if it is above the value of a feasible point, it is ignored.
    """
    primal, dual = Ball.of(primal), Ball.of(dual)
    p, d = float(primal.upper if primal.rad else primal.mid), float(dual.lower if dual.rad else dual.mid)
    notes = [note for note in notes if note]
    known = stated is not None and not np.isnan(stated)
    if stated is not None and (not known or stated > p + tol * abs(p)):
        notes += [_REFUTED] if known else []
        stated = None
    exact = all(r.relative <= tol for r in residuals)
    if np.isnan([p, d]).any() or np.isinf(p):
        claim = Claim.NONE
        notes = notes or [_OVERFLOW]
    elif not feasible:
        claim = Claim.NONE
    elif p < d:
        claim = Claim.CONTRADICTION
    elif exact and relative_gap(p, d) <= tol:
        claim = reached
    elif exact and stated is not None and relative_gap(p, stated) <= tol:
        claim = Claim.SOLVERS_WORD
    else:
        claim = Claim.SUBOPTIMAL_BY if d > -np.inf else Claim.NONE
    return Certificate(
        program=program,
        claim=claim,
        primal_value=p,
        dual_value=d,
        residuals=tuple(residuals),
        tol=tol,
        scope=scope or program,
        note=" ".join(notes),
        rounding=float(np.nan_to_num(primal.rad + dual.rad, posinf=np.inf)),
        stated=stated,
    )


def conclude_conditions(
    program: str, value: float, lagrangian: float, residuals: Sequence[Residual], tol: float, sense: str
) -> Certificate:
    """The certificate of optimality conditions alone; the Lagrangian is no bound."""
    holds = all(r.relative <= tol for r in residuals) and relative_gap(value, lagrangian) <= tol
    claim = Claim.CONDITIONS if holds else Claim.NONE
    return Certificate(program, claim, value, lagrangian, tuple(residuals), tol, program, sense=sense)


def conclude_infeasible(program: str, value: float, residuals: Sequence[Residual], tol: float) -> Certificate:
    """The certificate that no point is feasible, by multipliers that the caller has proven to be a ray."""
    return Certificate(program, Claim.INFEASIBLE, value, np.inf, tuple(residuals), tol)


def weakest(claims: Sequence[Claim]) -> Claim:
    """The weakest of several claims."""
    return max(claims, key=list(Claim).index)


def relative_gap(primal_value: float, dual_value: float) -> float:
    """``|p - d| / max(|p|, |d|)``, 0 where both are 0, and infinite where one of them is."""
    scale = max(abs(primal_value), abs(dual_value))
    if not np.isfinite(scale):
        return np.inf
    difference = abs(primal_value - dual_value)
    return difference / scale if scale > 0 else difference


def combine(
    certificates: Sequence[Certificate], names: Sequence[str], parts: str = "pairs of classes"
) -> Certificate:
    """Sum the values, keep the weakest claim, and of each condition the worst case.

    The certificates, at least one, are of minimisations; `names` are those of the parts.
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
        residuals=tuple(worst.values()),
        tol=certificates[0].tol,
        scope=f"{certificates[0].scope}, summed over {len(certificates)} {parts}",
        evidence=evidence if all(c.evidence for c in certificates) else (),
        note=" ".join(dict.fromkeys(c.note for c in certificates if c.note)),
    )
