"""A certificate as a picture: its gap and every optimality condition, against the tolerance."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from polyopt.base.text import cut_short, in_picture
from polyopt.certificates.certificate import Certificate
from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import BLUE, GRID, INK, ORANGE, styled
from polyopt.plots.subject import machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

__all__ = ["conditions"]

_MAX_CONDITIONS = 24  # conditions that are drawn, the worst
_AXIS_FLOOR = 1e-18  # shown for conditions that hold to the last digit


def conditions(certificate: Certificate | BaseEstimator, *, ax: Axes | None = None) -> Drawn:
    """Picture of a certificate: how far each optimality condition is from holding, relative to its size.

    What is within the tolerance is a blue dot left of the line, what is not an orange triangle right of it.
    What holds exactly stands at the left end. Of more than 24 conditions the worst are drawn.

    Parameters
    ----------
    certificate : Certificate or estimator
        The certificate, or a fitted machine, which is certified.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or `ax`.

    Raises
    ------
    TypeError
        Neither a certificate nor a fitted machine.
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
    with styled():
        sheet = Sheet(ax, 5.2, 0.21 * len(known) + 1.3)
        axes = sheet.axes()
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
        sheet.title("\n".join(textwrap.wrap(in_picture(certificate.sentence), 62)[:4]))
        sheet.legend(3)
    return sheet.drawn
