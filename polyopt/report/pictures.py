"""The pictures of the report, as inline SVG that follows the page's colours in the light and the dark."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from polyopt.base.text import cut_short, escape, in_picture, visible
from polyopt.compare.trace import trace
from polyopt.methods.registry import BUILT_IN, METHODS, answering_for
from polyopt.plots import convergence, decision_boundary, multipliers
from polyopt.plots.figure import (
    BLUE,
    CLASSES,
    GREEN,
    GRID,
    INDIGO,
    INK,
    MUTED,
    OLIVE,
    ORANGE,
    PURPLE,
    SKY,
    WINE,
    YELLOW,
    legend_below,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from polyopt.compare.comparison import Row
    from polyopt.compare.data import Prepared

__all__ = ["Picture", "pictures_of", "svg"]

_MAX_POINTS = 1500  # samples of a boundary: each is a shape in the page
# Colours that the page sets, lighter in the dark.
_PAGE_COLOURS = {
    INK: "ink", MUTED: "muted", GRID: "rule", "#ffffff": "paper",
    BLUE: "blue", ORANGE: "orange", GREEN: "teal", PURPLE: "purple", SKY: "sky", YELLOW: "gold",
    WINE: "wine", INDIGO: "indigo", OLIVE: "olive",
}  # fmt: skip
_WIDTH = 4.0  # inches; at the width of a phone its letters are as large as those of the page
_numbers = count(1)


@dataclass(frozen=True)
class Picture:
    """An SVG element, what it shows in short, and a caption of whole sentences."""

    image: str
    label: str
    caption: str


def pictures_of(data: Prepared, rows: list[Row]) -> list[Picture]:
    """Outputs, boundary in the plane, multipliers and run of one method on one data set of two classes."""
    method = METHODS[rows[0].method]
    exact, fast = (next((row for row in rows if pick(row)), None) for pick in (_is_exact, _is_fast))
    fitted = exact or fast or next((row for row in rows if row.estimator is not None), None)
    drawn: list[Callable[[], Picture]] = [] if fitted is None else [lambda: _outputs(data, fitted)]
    is_plane = data.X_train.shape[1] == 2 and not sp.issparse(data.X_train)
    if fitted is not None and is_plane and data.X_train.shape[0] <= _MAX_POINTS:
        drawn.append(lambda: _boundary(data, fitted))
    if exact is not None:
        drawn.append(lambda: _multipliers(exact))
    if fast is not None and len(trace(fast.estimator)):
        drawn.append(lambda: _run(data, fast, exact))
    pictures = []
    for draw in drawn:
        try:
            with answering_for(method):
                pictures.append(draw())
        except RuntimeError as error:
            if method.name in BUILT_IN:
                raise
            warnings.warn(f"a picture is left out. {error}", UserWarning, stacklevel=2)
    return pictures


def _is_exact(row: Row) -> bool:
    return row.solver == "exact" and row.estimator is not None


def _is_fast(row: Row) -> bool:
    return row.solver != "exact" and row.estimator is not None


def _outputs(data: Prepared, row: Row) -> Picture:
    """The outputs of the model of the table on the test samples, by class."""
    method, f = METHODS[row.method], row.estimator.decision_function(data.X_test)
    with styled():
        figure = new_figure(5.0, 4.6)
        axes = figure.subplots()
        edges = np.histogram_bin_edges(f, 30).tolist()
        for label, name, (colour, _) in zip(row.estimator.classes_, data.target_names, CLASSES, strict=True):
            own, shown = f[data.y_test == label], in_picture(_name(str(name)))
            axes.hist(own, edges, histtype="stepfilled", alpha=0.3, lw=0, color=colour)
            axes.hist(own, edges, histtype="step", lw=1.4, color=colour, label=shown)
        axes.axvline(0.0, color=INK, lw=1.2, label="f = 0")
        axes.set(xlabel="output f of the test sample", ylabel="samples")
        axes.grid(axis="y")
        legend_below(figure, 3)
    caption = (
        f"Of the model in the table ({row.solver}). Samples of the first class belong left of 0, those of "
        f"the second right of it; those on the wrong side are the test error, {100 * row.test_error:.1f} %."
    )
    return Picture(svg(figure, f"Outputs of {method.title} on {data.name}"), "Outputs", caption)


def _boundary(data: Prepared, row: Row) -> Picture:
    """The boundary of the model of the table, in the plane of its two features."""
    names, classes = ("x₁ (scaled)", "x₂ (scaled)"), [_name(str(name)) for name in data.target_names]
    figure = decision_boundary(
        row.estimator, data.X_train, data.y_train, axis_names=names, class_names=classes
    )
    caption = f"Of the model in the table ({row.solver}), with the training samples."
    label = f"Decision boundary of {METHODS[row.method].title} on {data.name}"
    return Picture(svg(figure, label), "Decision boundary", caption)


def _name(text: str) -> str:
    """A class's name as a legend shows it: no formula, never left out, cut where there is no room."""
    text = visible(text).strip() or "(no name)"
    return cut_short(text, 28)


def _multipliers(row: Row) -> Picture:
    B = float(getattr(row.estimator, "B", np.inf))
    figure = multipliers(row.estimator.duals_, B=B)
    caption = (
        "Of the exact solution on all features. Above, the multipliers by size, zeros left out; below, each "
        "against its sample's output f."
    )
    return Picture(svg(figure, f"Multipliers of {row.method} on {row.data}"), "Multipliers", caption)


def _run(data: Prepared, row: Row, exact: Row | None) -> Picture:
    history = trace(row.estimator)
    reference = None if exact is None else exact.objective
    figure = convergence(history, reference=reference, unit=METHODS[row.method].unit)
    caption = f"The run of the fast solver ({row.solver}) on all features"
    caption += (
        ": its objective and bound as it went." if "bound" in history else ": its objective as it went."
    )
    return Picture(svg(figure, f"Run of {row.solver} for {row.method} on {row.data}"), "The run", caption)


def svg(figure: Figure, label: str, *, as_wide: bool = False) -> str:
    """A figure as an SVG element that stands in a page.

    Its ids are made unique in the page, and its ink takes the page's colours.

    label: what it shows, for readers that do not see it.
    as_wide: whether it keeps its size; by default it gets a phone's, for which its letters are large enough.
    """
    import matplotlib

    number = next(_numbers)
    width, height = figure.get_size_inches()
    if not as_wide:
        figure.set_size_inches(_WIDTH, height * (_WIDTH / width) ** 0.5)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "polyopt"}):
        figure.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
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
