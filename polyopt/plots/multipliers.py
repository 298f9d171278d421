"""The multipliers, by sample and by output: which samples hold the solution, and how hard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.plots.style import BLUE, GREEN, INK, MUTED, PURPLE, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["multipliers"]

_LOOKS = {"alpha": ("α", BLUE, "o"), "lam": ("λ", GREEN, "^"), "lam_star": ("λ*", PURPLE, "v")}

_MANY = 2000


def multipliers(duals: pd.DataFrame, *, B: float = np.inf, title: str = "") -> Figure:
    """Picture of the multipliers of a fitted estimator.

    Above, each family from its largest multiplier down, one stem per sample, zeros left out. Below,
    each multiplier against the sample's output, where complementarity can be seen: α between its
    bounds only at f = ±1, λ only at f = B, λ* only at f = −B.

    Parameters
    ----------
    duals : DataFrame
        ``estimator.duals_`` of a binary problem: ``letter``, ``multiplier`` and, for the lower
        picture, ``output``.
    B : float
        The bound on the outputs, to be marked; infinite for none.
    title : str
        Title of the picture.
    """
    with_outputs = "output" in duals
    with styled():
        figure = new_figure(5.0, 4.6 if with_outputs else 2.6)
        axes = figure.subplots(2 if with_outputs else 1, 1, squeeze=False)[:, 0]
        total, first = duals["sample"].nunique(), 0
        for letter, (name, colour, marker) in _LOOKS.items():
            mine = duals[duals["letter"] == letter]
            small = 1e-6 * float(duals["multiplier"].max())
            sizes = np.sort(mine["multiplier"].to_numpy())[::-1]
            sizes = sizes[sizes > small]
            if not len(sizes):
                continue
            places = first + np.arange(len(sizes))
            many = len(sizes) > _MANY  # too many for a vector picture
            axes[0].vlines(places, 0.0, sizes, color=colour, lw=0.8, alpha=0.55, rasterized=many)
            axes[0].plot(
                places,
                sizes,
                marker,
                rasterized=many,
                color=colour,
                ms=3,
                label=f"{name}: {len(sizes)} of {len(mine)}",
            )
            first += len(sizes) + max(2, total // 60)
            if with_outputs:
                held = mine[mine["multiplier"] > small]
                axes[1].plot(
                    held["output"],
                    held["multiplier"],
                    marker,
                    color=colour,
                    ms=3.5,
                    alpha=0.75,
                    rasterized=many,
                )
        axes[0].set(
            title=title, xlabel="samples, largest multiplier first", ylabel="multiplier", ylim=(0, None)
        )
        axes[0].set_xticks([])
        figure.legend(loc="outside lower center", ncols=3, handletextpad=0.4, columnspacing=1.4)
        if with_outputs:
            _mark_outputs(axes[1], duals, B)
    return figure


def _mark_outputs(axes: Any, duals: pd.DataFrame, B: float) -> None:
    axes.set(xlabel="output f of the sample", ylabel="multiplier", ylim=(0, None))
    marks = [(-1.0, "−1", INK), (1.0, "1", INK)]
    if np.isfinite(B):
        marks += [(-B, "−B", GREEN), (B, "B", GREEN)]
    for place, text, colour in marks:
        axes.axvline(place, color=colour, lw=0.8, ls="--", zorder=0)
        axes.annotate(
            text, (place, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
            ha="center", va="bottom", color=colour, fontsize=8,
        )  # fmt: skip
    axes.axhline(0.0, color=MUTED, lw=0.6)
    held = duals[(duals["multiplier"] > 0) & duals["letter"].isin(list(_LOOKS))]
    small = 1e-6 * float(held["multiplier"].max())
    span = float(held.loc[held["multiplier"] > small, "output"].abs().max())
    span = 1.08 * max(span, *(place for place, _, _ in marks))
    axes.set_xlim(-span, span)
