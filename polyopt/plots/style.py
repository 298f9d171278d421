"""One look for every picture: colours that colour-blind readers tell apart, thin frames, no clutter.

The classes also differ in their markers, the families of multipliers in theirs, so that no picture
depends on colour alone. Figures are made by the object-oriented interface and hold no global state.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polyopt.base.files import temporary_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "CLASSES",
    "FACES",
    "GREEN",
    "GRID",
    "INDIGO",
    "INK",
    "MAX_SHAPES",
    "MUTED",
    "OLIVE",
    "ORANGE",
    "PURPLE",
    "SKY",
    "WINE",
    "YELLOW",
    "ZERO_SHARE",
    "legend_below",
    "new_figure",
    "styled",
]

# Okabe & Ito's palette.
BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"
WINE, INDIGO, OLIVE = "#882255", "#332288", "#999933"  # Tol's, for the faces that Okabe & Ito leave out
INK, MUTED, GRID = "#1f2328", "#6e7781", "#d8dee4"
MAX_SHAPES = 2000  # above so many a picture holds pixels: as shapes they make it slow to open
ZERO_SHARE = 1e-6  # of the largest multiplier: a smaller one is a solver's zero
CLASSES = ((BLUE, "o"), (ORANGE, "^"))
FACES = (GREEN, PURPLE, YELLOW, SKY, MUTED, WINE, INDIGO, OLIVE)

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "axes.facecolor": "none",
    "axes.unicode_minus": True,
}


def _give_matplotlib_a_cache() -> None:
    """Name a cache to matplotlib where the home is read-only, or every process lists the fonts anew."""
    named = {"MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} & os.environ.keys()
    if named or "matplotlib" in sys.modules or os.access(os.path.expanduser("~"), os.W_OK):
        return
    if folder := temporary_folder():
        os.environ["MPLCONFIGDIR"] = str(folder / "matplotlib")


_give_matplotlib_a_cache()


@contextmanager
def styled() -> Iterator[None]:
    """The house's settings of matplotlib, for as long as a figure is made."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width: float = 5.0, height: float = 4.0) -> Figure:
    """An empty figure of this size in inches, which a notebook shows; it is white in a saved picture."""
    from polyopt.plots.picture import Picture

    return Picture(figsize=(width, height), layout="constrained", facecolor="white", dpi=150)


def legend_below(figure: Figure, columns: int) -> None:
    """One legend for all panels, below them, in `columns` columns; each label is named once."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center",
        ncols=columns, handletextpad=0.4, columnspacing=1.4,
    )  # fmt: skip
