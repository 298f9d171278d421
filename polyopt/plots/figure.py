"""Figures of one style, their panels, the models and samples to draw, and SVG for a page.

The colours are distinct to colour-blind readers; classes and families of multipliers also differ in their
markers. Figures are made without pyplot, which would keep each until it is closed: no window opens.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyopt.base.text import escape

# Matplotlib's classes: it is imported when something is drawn.
Axes: TypeAlias = Any
Figure: TypeAlias = Any

# Okabe & Ito's palette.
BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"
WINE, INDIGO, OLIVE = "#882255", "#332288", "#999933"  # Tol's palette, for further faces
INK, MUTED, GRID = "#1f2328", "#6e7781", "#d8dee4"
MAX_SHAPES = 2000  # markers in a vector picture; more, which are slow to open, are drawn as pixels
ZERO_TOL = 1e-6  # multipliers below this fraction of the largest are a solver's zeros
CLASSES = ((BLUE, "o"), (ORANGE, "^"))
FACES = (GREEN, PURPLE, YELLOW, SKY, MUTED, WINE, INDIGO, OLIVE)
MARKERS = ("o", "^", "v", "s", "D", "P", "X", "*")

_STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK,
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlecolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": MUTED, "axes.labelcolor": INK,
    "axes.axisbelow": True, "axes.facecolor": "none", "axes.unicode_minus": True,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "grid.color": GRID, "grid.linewidth": 0.6, "legend.frameon": False, "legend.fontsize": 8,
}  # fmt: skip


@contextmanager
def styled() -> Iterator[None]:
    """Apply the settings of matplotlib that all figures share."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width: float = 5.0, height: float = 4.0) -> Figure:
    """Return an empty figure of this size in inches, which a notebook shows, white in a saved picture."""
    from polyopt.plots.picture import Picture

    return Picture(figsize=(width, height), layout="constrained", facecolor="white", dpi=150)


@contextmanager
def new_panels(
    width: float, height: float, rows: int = 1, columns: int = 1, **settings: Any
) -> Iterator[tuple[Figure, NDArray[Any]]]:
    """Yield a new figure of this size in inches, and its panels (rows, columns); draw within.

    `settings` are those of ``figure.subplots``.
    """
    with styled():
        figure = new_figure(width, height)
        yield figure, figure.subplots(rows, columns, squeeze=False, **settings)


def draw_legend(figure: Figure, columns: int) -> None:
    """Draw one legend below all panels, in which each of their labels stands once."""
    entries = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center",
        ncols=columns, handletextpad=0.4, columnspacing=1.4,
    )  # fmt: skip


def plane_limits(X: NDArray[Any]) -> NDArray[Any]:
    """Return the limits of a picture of samples in two dimensions: a row (low, high) for each axis."""
    low, high = X.min(axis=0), X.max(axis=0)
    pad = 0.06 * np.where(high > low, high - low, 1.0)
    return np.column_stack([low - pad, high + pad])


def draw_line(axes: Axes, w: NDArray[Any], b: float, **look: Any) -> None:
    """Draw the line w·x + b = 0 across a panel; none if w is 0."""
    if w.any():
        start = -b * w / (w @ w)
        axes.axline(start, start + np.array([-w[1], w[0]]), **look)


def machine_of(subject: Any) -> Any:
    """Return the machine in a search or at the end of a pipeline; `subject` itself if it is neither."""
    subject = getattr(subject, "best_estimator_", subject)
    return subject[-1] if hasattr(subject, "steps") else subject


def values_of(X: ArrayLike, names: Sequence[str] | None) -> NDArray[np.float64]:
    """Convert samples to numbers (n, m), a frame's columns in the order of `names` if it has them all."""
    columns = getattr(X, "columns", None)
    if columns is not None and names is not None and set(columns) == set(names):
        X = X[list(names)]  # type: ignore[call-overload, index]
    return np.asarray(X, dtype=float)


def feature_names(estimator: Any, X: ArrayLike | None = None) -> list[str] | None:
    """Return the names of the features: those of the fit or, if it had none, the columns of a frame."""
    names = getattr(estimator, "feature_names_in_", None)
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else [str(name) for name in names]


# Colours set by variables of the page, lighter in its dark scheme.
_PAGE_COLOURS = {
    INK: "ink", MUTED: "muted", GRID: "rule", "#ffffff": "paper",
    BLUE: "blue", ORANGE: "orange", GREEN: "teal", PURPLE: "purple",
    SKY: "sky", YELLOW: "gold", WINE: "wine", INDIGO: "indigo",
    OLIVE: "olive",
}  # fmt: skip
_PHONE_WIDTH = 4.0  # inches, at which letters on a phone are as large as those of the page
_numbers = count(1)


def svg_file(figure: Figure, *, letters: str = "path", transparent: bool = False) -> str:
    """Convert a figure to an SVG file, the same whenever it is written, letters as shapes or texts."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": letters, "svg.hashsalt": "polyopt"}):
        figure.savefig(buffer, format="svg", transparent=transparent, metadata={"Date": None})
    return buffer.getvalue()


def svg(figure: Figure, label: str, *, as_wide: bool = False) -> str:
    """Convert a figure to an SVG element with ids unique in the page, in the page's colours.

    `label` describes it for screen readers. It takes the width of a phone unless `as_wide`.
    """
    number = next(_numbers)
    width, height = figure.get_size_inches()
    if not as_wide:
        figure.set_size_inches(_PHONE_WIDTH, height * (_PHONE_WIDTH / width) ** 0.5)
    text = svg_file(figure, letters="none", transparent=True)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    # A hundredth of a point is finer than any screen.
    text = re.sub(r'\b(d|x|y)="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), text)
    text = re.sub(r'\bid="', f'id="p{number}-', text)
    text = re.sub(r"url\(#", f"url(#p{number}-", text)
    text = re.sub(r'href="#', f'href="#p{number}-', text)
    for colour, name in _PAGE_COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    head, _, body = text.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{escape(label)}">{body}'
