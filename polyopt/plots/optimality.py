"""Optimality in pictures: the multipliers of a machine, and the conditions of a certificate."""

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from polyopt.base.text import cut_short, in_picture
from polyopt.certificates.certificate import Certificate
from polyopt.plots import figure as style
from polyopt.plots.figure import draw_legend, machine_of, new_panels

# Letters of rows on a sample's output, and their looks.
_LOOKS = {
    "alpha": ("α", style.BLUE, "o"),
    "u": ("u", style.BLUE, "o"),
    "lam": ("λ", style.GREEN, "^"),
    "lam_star": ("λ*", style.PURPLE, "v"),
}
_LEFTOVERS = ("beta", "v", "r")  # multipliers of slack ≥ 0: a cost less another multiplier, not drawn
_MARGIN = ("inside the margin", "on the margin", "beyond the margin")


class _Family(NamedTuple):
    """Multipliers drawn with one label, colour and marker.

    `at_outputs` is False for caps on coefficients, which do not constrain an output.
    """

    label: str
    colour: str
    marker: str
    rows: pd.DataFrame
    at_outputs: bool = True


def multipliers(duals: pd.DataFrame | BaseEstimator, *, B: float | None = None) -> Any:
    """Draw a picture of the multipliers of a fitted estimator.

    Above, each family from its largest multiplier down, one stem per row, zeros left out; a machine with
    several faces has a family for each. Below, each multiplier against the sample's output, at its face if
    there are several. This shows complementarity: α and u are between their bounds only at f = ±1, λ only
    at f = B, λ* only at f = −B. Those of a logistic machine decrease smoothly beyond f = 0. A multiplier that
    lowers a score is negative (PLUME).

    Parameters
    ----------
    duals : DataFrame or estimator
        A fitted machine, or ``estimator.duals_`` of a binary problem, or of one pair of classes
        (``duals_.query("pair == ...")``): ``letter``, ``multiplier``, ``sample``; for caps on coefficients
        ``state``; and for the lower picture ``output``.
    B : float, optional
        The bound on the outputs, to be marked; by default that of the machine, and none of a frame.
    """
    machine = machine_of(duals)
    if hasattr(machine, "duals_"):
        duals, B = machine.duals_, getattr(machine, "B", None) if B is None else B
    if not hasattr(duals, "columns"):
        raise TypeError(f"duals must be a fitted machine or its duals_, not {type(duals).__name__}")
    B = np.inf if B is None else float(B)
    duals = duals[duals["sample"] >= 0]  # not those of penalties on weights
    if duals["multiplier"].isna().any():
        raise ValueError("these duals_ have no multipliers (nan): fit with solver='exact'")
    if "pair" in duals and duals["pair"].nunique() > 1:
        raise ValueError("a picture is of one pair of classes: give duals_[duals_['pair'] == ...]")
    if "state" not in duals:
        duals = duals.assign(state="")
    small = style.ZERO_TOL * float(duals["multiplier"].abs().max())
    families = [family for family in _families(duals) if (family.rows["multiplier"].abs() > small).any()]
    with_outputs = "output" in duals and any(family.at_outputs for family in families)
    with new_panels(5.0, 4.6 if with_outputs else 2.6, 2 if with_outputs else 1) as (figure, grid):
        axes = grid[:, 0]
        gap, first = max(2, duals["sample"].nunique() // 60), 0
        for family in families:
            nonzero = family.rows[family.rows["multiplier"].abs() > small]
            _draw_stems(axes[0], family, nonzero, first)
            first += len(nonzero) + gap
            if with_outputs and family.at_outputs:
                axes[1].plot(
                    nonzero["output"], nonzero["multiplier"], family.marker, color=family.colour,
                    ms=3.5, alpha=0.75, rasterized=len(nonzero) > style.MAX_SHAPES,
                )  # fmt: skip
        axes[0].set(xlabel="samples, largest multiplier first", ylabel="multiplier")
        axes[0].set_xticks([])
        if families:
            draw_legend(figure, 3 if max(len(family.label) for family in families) < 12 else 2)
        else:
            middle = {"transform": axes[0].transAxes, "ha": "center", "va": "center", "color": style.MUTED}
            axes[0].text(0.5, 0.5, "every multiplier is 0", **middle)
        if with_outputs:
            _mark_outputs(axes[1], duals, families, small, B)
        for panel in axes:  # nothing under zero unless there are negative multipliers
            panel.axhline(0.0, color=style.MUTED, lw=0.6)
            if not (duals["multiplier"] < -small).any():
                panel.set_ylim(0.0, None)
    return figure


def _families(duals: pd.DataFrame) -> Iterator[_Family]:
    """Yield the families in their order: by letter, or by face if there are several."""
    shown = duals[~duals["letter"].isin(["s", *_LEFTOVERS])]
    keys = [name for name in ("outside", "face") if name in shown and shown[name].nunique() > 1]
    n_faces = len(shown[keys].drop_duplicates()) if keys else 1
    if 1 < n_faces <= len(style.FACES):
        for number, (values, rows) in enumerate(shown.groupby(keys)):
            # The faces of one polytope have the colours of the picture of its boundary.
            look = int(rows["face"].iloc[0]) % len(style.FACES) if keys == ["face"] else number
            names = [f"{value} outside" if key == "outside" else f"face {value}"
                     for key, value in zip(keys, values, strict=True)]  # fmt: skip
            yield _Family(", ".join(names), style.FACES[look], style.MARKERS[look], rows)
    else:
        for number, (letter, rows) in enumerate(shown.groupby("letter", sort=False)):
            look = number % len(style.FACES)  # as many as there are markers
            other = str(letter), style.FACES[look], style.MARKERS[look]
            yield _Family(*_LOOKS.get(str(letter), other), rows)
    caps = duals[duals["letter"] == "s"]
    is_unused = caps["state"] == "held at 0"
    yield _Family("s at the cap", style.GREEN, "s", caps[~is_unused], at_outputs=False)
    yield _Family("s of a centre not used", style.ORANGE, "D", caps[is_unused], at_outputs=False)


def _draw_stems(axes: style.Axes, family: _Family, nonzero: pd.DataFrame, first: int) -> None:
    """Draw the nonzero multipliers of a family from the largest down, beginning at the abscissa `first`."""
    sizes: NDArray[Any] = np.sort(nonzero["multiplier"].to_numpy())[::-1]
    x, as_pixels = first + np.arange(len(sizes)), len(sizes) > style.MAX_SHAPES
    axes.vlines(x, 0.0, sizes, color=family.colour, lw=0.8, alpha=0.55, rasterized=as_pixels)
    axes.plot(
        x, sizes, family.marker, rasterized=as_pixels, color=family.colour, ms=3,
        label=f"{family.label}: {len(sizes)} of {len(family.rows)}",
    )  # fmt: skip


def _mark_outputs(
    axes: style.Axes, duals: pd.DataFrame, families: list[_Family], small: float, B: float
) -> None:
    """Mark the outputs at which multipliers may change, and set limits that contain all points."""
    has_faces = "face" in duals and duals["face"].nunique() > 1
    axes.set(xlabel=f"output of the sample{' at the face' if has_faces else ', f'}", ylabel="multiplier")
    marks = (
        [(-1.0, "−1", style.INK), (1.0, "1", style.INK)]
        if duals["state"].isin(_MARGIN).any()
        else [(0.0, "0", style.INK)]
    )
    if np.isfinite(B):
        marks += [(-B, "−B", style.GREEN), (B, "B", style.GREEN)]
    for output, text, colour in marks:
        axes.axvline(output, color=colour, lw=0.8, ls="--", zorder=0)
        axes.annotate(
            text, (output, 1.0), (0, 2), ("data", "axes fraction"), "offset points", ha="center", va="bottom",
            color=colour, fontsize=8,
        )  # fmt: skip
    rows = pd.concat([family.rows for family in families if family.at_outputs])
    largest = float(rows.loc[rows["multiplier"].abs() > small, "output"].abs().max())
    limit = 1.08 * max(largest, *(abs(output) for output, _, _ in marks))
    axes.set_xlim(-limit, limit)


_MAX_CONDITIONS = 24  # drawn: the gap and the worst residuals
_MIN_VIOLATION = 1e-18  # drawn for conditions that hold exactly


def conditions(certificate: Certificate | BaseEstimator) -> Any:
    """Draw the violation of each optimality condition of a certificate, relative to its size.

    Violations within the tolerance are blue dots left of the line, the others orange triangles right of it.
    A condition that holds exactly is at the left end. Of more than 24 conditions the worst are drawn.

    Parameters
    ----------
    certificate : Certificate or estimator
        The certificate, or a fitted machine, which is certified.
    """
    machine = machine_of(certificate)
    if hasattr(machine, "certificate"):
        certificate = machine.certificate()
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be one, or a fitted machine, not {type(certificate).__name__}")
    residuals = sorted(certificate.residuals, key=lambda r: -np.nan_to_num(r.relative, nan=np.inf))
    worst = residuals[: _MAX_CONDITIONS - 1]
    drawn = [residual for residual in certificate.residuals if residual in worst]
    labels = ["gap", *(residual.label for residual in drawn)]
    values = np.array([certificate.relative_gap, *(residual.relative for residual in drawn)])
    tol = certificate.tol
    largest = 10 * max(float(values[np.isfinite(values)].max(initial=tol)), tol)
    y = np.arange(len(values))
    x = np.clip(np.nan_to_num(values, nan=largest, posinf=largest), _MIN_VIOLATION, largest)
    holds = values <= tol
    with new_panels(5.2, 0.21 * len(values) + 1.3) as (figure, grid):
        axes = grid[0, 0]
        axes.hlines(y, _MIN_VIOLATION, x, color=style.GRID, lw=1.0, zorder=1)
        axes.axvline(tol, color=style.INK, lw=0.9, ls="--", label=f"tolerance, {tol:.0e}")
        looks = (holds, style.BLUE, "o", "within it"), (~holds, style.ORANGE, "^", "beyond it")
        for mask, colour, marker, label in looks:
            if mask.any():
                axes.plot(x[mask], y[mask], marker, color=colour, ms=4.5, label=label, clip_on=False)
        axes.set(xscale="log", xlim=(_MIN_VIOLATION, 10 * largest))
        axes.set_xlabel("relative gap, and relative violations")
        axes.set_yticks(y, [in_picture(cut_short(label, 34)) for label in labels])
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.invert_yaxis()
        title = "\n".join(textwrap.wrap(in_picture(certificate.sentence), 62)[:4])
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        draw_legend(figure, 3)
    return figure
