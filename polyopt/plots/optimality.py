"""Optimality in pictures: the multipliers of a machine, and the conditions of a certificate."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from polyopt.base.text import cut_short, in_picture
from polyopt.certificates.certificate import Certificate
from polyopt.plots.figure import (
    BLUE,
    FACES,
    GREEN,
    GRID,
    INK,
    MARKERS,
    MAX_SHAPES,
    MUTED,
    ORANGE,
    PURPLE,
    ZERO_SHARE,
    Axes,
    Drawn,
    Panels,
    Places,
    machine_of,
)

# Letters of rows that say how far a sample is from its margin or its bound. The others (beta, v, r) are what
# these leave of a price.
_LOOKS = {
    "alpha": ("α", BLUE, "o"),
    "u": ("u", BLUE, "o"),
    "lam": ("λ", GREEN, "^"),
    "lam_star": ("λ*", PURPLE, "v"),
}
# A cap on a coefficient says nothing about the output of its sample.
_CAPS = ("at the cap", GREEN, "s"), ("of a centre not used", ORANGE, "D")
# What the others leave of a price is not drawn.
_LEFTOVERS = ("beta", "v", "r")
_MARGIN = ("inside the margin", "on the margin", "beyond the margin")


class _Family(NamedTuple):
    """Multipliers that are drawn alike."""

    label: str
    colour: str
    marker: str
    rows: pd.DataFrame
    at_outputs: bool = True


def multipliers(
    duals: pd.DataFrame | BaseEstimator, *, B: float | None = None, title: str = "", ax: Places | None = None
) -> Drawn:
    """Draw a picture of the multipliers of a fitted estimator.

    Above, each family from its largest multiplier down, one stem per row, zeros left out; a machine with
    several faces has a family for each. Below, each multiplier against the sample's output, at its face if
    there are several, where complementarity can be seen: α and u between their bounds only at f = ±1, λ only
    at f = B, λ* only at f = −B. A logistic machine's fall off smoothly beyond f = 0. A multiplier that pulls
    a score down is negative (PLUME).

    Parameters
    ----------
    duals : DataFrame or estimator
        A fitted machine, or ``estimator.duals_`` of a binary problem, or of one pair of classes: ``letter``,
        ``multiplier``, ``sample``; for caps on coefficients ``state``; and for the lower picture ``output``.
    B : float, optional
        The bound on the outputs, to be marked; by default that of the machine, and none of a frame.
    title : str
        Title of the picture.
    ax : Axes or array of Axes, optional
        Axes for each panel, or one whose place they share; a new figure by default. It is returned.
    """
    machine = machine_of(duals)
    if hasattr(machine, "duals_"):
        duals, B = machine.duals_, getattr(machine, "B", None) if B is None else B
    if not hasattr(duals, "columns"):
        raise TypeError(f"duals must be a fitted machine or its duals_, not {type(duals).__name__}")
    B = np.inf if B is None else float(B)
    duals = duals[duals["sample"] >= 0]  # the others are of prices of weights
    if duals["multiplier"].isna().any():
        raise ValueError("these duals_ have no multipliers (nan): fit with solver='exact'")
    if "pair" in duals and duals["pair"].nunique() > 1:
        raise ValueError("a picture is of one pair of classes: give duals_[duals_['pair'] == ...]")
    if "state" not in duals:
        duals = duals.assign(state="")
    small = ZERO_SHARE * float(duals["multiplier"].abs().max())
    families = [family for family in _families(duals) if (family.rows["multiplier"].abs() > small).any()]
    with_outputs = "output" in duals and any(family.at_outputs for family in families)
    with Panels(ax, 5.0, 4.6 if with_outputs else 2.6) as panels:
        axes = panels.grid(2 if with_outputs else 1, 1)[:, 0]
        gap, first = max(2, duals["sample"].nunique() // 60), 0
        for family in families:
            held = family.rows[family.rows["multiplier"].abs() > small]
            first += _stems(axes[0], family, held, first) + gap
            if with_outputs and family.at_outputs:
                axes[1].plot(
                    held["output"], held["multiplier"], family.marker, color=family.colour,
                    ms=3.5, alpha=0.75, rasterized=len(held) > MAX_SHAPES,
                )  # fmt: skip
        axes[0].set(title=title, xlabel="samples, largest multiplier first", ylabel="multiplier")
        axes[0].set_xticks([])
        if families:
            panels.legend(3 if max(len(family.label) for family in families) < 12 else 2)
        else:
            middle = {"transform": axes[0].transAxes, "ha": "center", "va": "center", "color": MUTED}
            axes[0].text(0.5, 0.5, "every multiplier is 0", **middle)
        if with_outputs:
            _mark_outputs(axes[1], duals, families, small, B)
        for panel in axes:  # nothing under zero unless there are negative multipliers
            panel.axhline(0.0, color=MUTED, lw=0.6)
            if not (duals["multiplier"] < -small).any():
                panel.set_ylim(0.0, None)
    return panels.drawn


def _families(duals: pd.DataFrame) -> Iterator[_Family]:
    """Groups that are drawn, in order: by letter, or by face if there are several."""
    shown = duals[~duals["letter"].isin(["s", *_LEFTOVERS])]
    parts = [name for name in ("outside", "face") if name in shown and shown[name].nunique() > 1]
    several = len(shown[parts].drop_duplicates()) if parts else 1
    if 1 < several <= len(FACES):
        looks = list(zip(FACES, MARKERS, strict=True))
        for place, (keys, mine) in enumerate(shown.groupby(parts)):
            # The faces of one polytope have the colours that the picture of its boundary gives them.
            own = int(mine["face"].iloc[0]) if parts == ["face"] else place
            colour, marker = looks[own % len(looks)]
            names = [f"{key} outside" if part == "outside" else f"face {key}"
                     for part, key in zip(parts, keys, strict=True)]  # fmt: skip
            yield _Family(", ".join(names), colour, marker, mine)
    else:
        for place, (letter, mine) in enumerate(shown.groupby("letter", sort=False)):
            other = (str(letter), FACES[place % len(FACES)], MARKERS[place % len(MARKERS)])
            yield _Family(*_LOOKS.get(str(letter), other), mine)
    caps = duals[duals["letter"] == "s"]
    off = caps["state"] == "held at 0"
    for (name, colour, marker), mine in zip(_CAPS, (caps[~off], caps[off]), strict=True):
        yield _Family(f"s {name}", colour, marker, mine, at_outputs=False)


def _stems(axes: Axes, family: _Family, held: pd.DataFrame, first: int) -> int:
    """Draw one family from its largest down, beginning at a place; return how many there are."""
    sizes: NDArray[Any] = np.sort(held["multiplier"].to_numpy())[::-1]
    places, many = first + np.arange(len(sizes)), len(sizes) > MAX_SHAPES  # too many for a vector picture
    axes.vlines(places, 0.0, sizes, color=family.colour, lw=0.8, alpha=0.55, rasterized=many)
    axes.plot(
        places, sizes, family.marker, rasterized=many, color=family.colour, ms=3,
        label=f"{family.label}: {len(sizes)} of {len(family.rows)}",
    )  # fmt: skip
    return len(sizes)


def _mark_outputs(axes: Axes, duals: pd.DataFrame, families: list[_Family], small: float, B: float) -> None:
    """Draw the outputs at which multipliers change, and limits that hold all that is drawn."""
    several = "face" in duals and duals["face"].nunique() > 1
    axes.set(xlabel=f"output of the sample{' at the face' if several else ', f'}", ylabel="multiplier")
    marks = [(-1.0, "−1", INK), (1.0, "1", INK)] if duals["state"].isin(_MARGIN).any() else [(0.0, "0", INK)]
    if np.isfinite(B):
        marks += [(-B, "−B", GREEN), (B, "B", GREEN)]
    for place, text, colour in marks:
        axes.axvline(place, color=colour, lw=0.8, ls="--", zorder=0)
        axes.annotate(
            text, (place, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
            ha="center", va="bottom", color=colour, fontsize=8,
        )  # fmt: skip
    drawn = [family.rows for family in families if family.at_outputs]
    span = max(float(rows.loc[rows["multiplier"].abs() > small, "output"].abs().max()) for rows in drawn)
    span = 1.08 * max(span, *(abs(place) for place, _, _ in marks))
    axes.set_xlim(-span, span)


_MAX_CONDITIONS = 24  # conditions that are drawn, the worst
_AXIS_FLOOR = 1e-18  # shown for conditions that hold to the last digit


def conditions(certificate: Certificate | BaseEstimator, *, ax: Axes | None = None) -> Drawn:
    """Draw the violation of each optimality condition of a certificate, relative to its size.

    What is within the tolerance is a blue dot left of the line, what is not an orange triangle right of it.
    What holds exactly stands at the left end. Of more than 24 conditions the worst are drawn.

    Parameters
    ----------
    certificate : Certificate or estimator
        The certificate, or a fitted machine, which is certified.
    ax : Axes, optional
        Axes to draw on; a new figure by default. It is returned.
    """
    machine = machine_of(certificate)
    if hasattr(machine, "certificate"):
        certificate = machine.certificate()
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be one, or a fitted machine, not {type(certificate).__name__}")
    known = [("gap", certificate.relative_gap)]
    known += [(residual.label, residual.relative) for residual in certificate.residuals]
    if len(known) > _MAX_CONDITIONS:
        kept = sorted(range(1, len(known)), key=lambda i: -np.nan_to_num(known[i][1], nan=np.inf))
        known = [known[0], *(known[i] for i in sorted(kept[: _MAX_CONDITIONS - 1]))]
    names = [in_picture(cut_short(name, 34)) for name, _ in known]
    values, tol = np.array([value for _, value in known]), certificate.tol
    finite = values[np.isfinite(values)]
    most = 10 * max(float(finite.max(initial=tol)), tol)
    places = np.arange(len(known))
    shown = np.clip(np.nan_to_num(values, nan=most, posinf=most), _AXIS_FLOOR, most)
    holds = values <= tol
    with Panels(ax, 5.2, 0.21 * len(known) + 1.3) as panels:
        axes = panels.axes()
        axes.hlines(places, _AXIS_FLOOR, shown, color=GRID, lw=1.0, zorder=1)
        axes.axvline(tol, color=INK, lw=0.9, ls="--", label=f"tolerance, {tol:.0e}")
        looks = (holds, BLUE, "o", "within it"), (~holds, ORANGE, "^", "beyond it")
        for chosen, colour, marker, label in looks:
            if chosen.any():
                axes.plot(
                    shown[chosen], places[chosen], marker, color=colour, ms=4.5, label=label, clip_on=False
                )
        axes.set(xscale="log", xlim=(_AXIS_FLOOR, 10 * most), xlabel="relative gap, and relative violations")
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.invert_yaxis()
        panels.title("\n".join(textwrap.wrap(in_picture(certificate.sentence), 62)[:4]))
        panels.legend(3)
    return panels.drawn
