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

from polyopt.compare.trace import trace
from polyopt.methods.registry import BUILT_IN, METHODS, answering_for
from polyopt.plots import convergence, decision_boundary, multipliers
from polyopt.plots.style import (
    BLUE,
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
)  # fmt: skip
from polyopt.text import escape, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from polyopt.compare.comparison import Row
    from polyopt.compare.data import Prepared
    from polyopt.methods import Method

__all__ = ["Picture", "pictures_of", "svg"]

_MOST_POINTS = 1500  # samples drawn: each is a shape in the page
_LONGEST_FIT = 5.0  # seconds; a solver that took longer is not run again for a picture
# Colours that the page sets, lighter in the dark.
_PAGE_COLOURS = {
    INK: "ink", MUTED: "muted", GRID: "rule", "#ffffff": "paper",
    BLUE: "blue", ORANGE: "orange", GREEN: "teal", PURPLE: "purple", SKY: "sky", YELLOW: "gold",
    WINE: "wine", INDIGO: "indigo", OLIVE: "olive",
}  # fmt: skip
_WIDTH = 4.0  # inches; at the width of a phone its letters are as large as those of the page
_LONGEST_NAME = 28  # letters of a class's name that a legend has room for
_numbers = count(1)


@dataclass(frozen=True)
class Picture:
    """An SVG element, what it shows in short, and a caption of whole sentences."""

    image: str
    label: str
    caption: str


def pictures_of(data: Prepared, rows: list[Row], seed: int) -> list[Picture]:
    """Boundary, multipliers and run of one method on one data set of two classes.

    Parameters
    ----------
    data : Prepared
        The data set.
    rows : list of Row
        The rows of the method on these data.
    seed : int
        Seed of the refit in two dimensions.
    """
    method = METHODS[rows[0].method]
    exact, fast = (next((row for row in rows if pick(row)), None) for pick in (_is_exact, _is_fast))
    fitted = fast or exact or next((row for row in rows if row.estimator is not None), None)
    drawn: list[Callable[[], Picture]] = [lambda: _boundary(data, method, fitted, seed)]
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
    return row.solver != "exact" and row.estimator is not None and row.seconds <= _LONGEST_FIT


def _boundary(data: Prepared, method: Method, row: Row | None, seed: int) -> Picture:
    """The method fitted anew in the plane of the first two principal components.

    Its error is told beside that of the model in the table, from `row`: the plane may hold little of what
    the model goes by.
    """
    from sklearn.decomposition import TruncatedSVD

    X, y = data.X_train, data.y_train
    kept = np.arange(len(y))
    if len(y) > _MOST_POINTS:
        kept = np.sort(np.random.default_rng(seed).choice(len(y), _MOST_POINTS, replace=False))
    if X.shape[1] == 2 and not sp.issparse(X):
        Z, names, plane, label = X[kept], ("x₁ (scaled)", "x₂ (scaled)"), "The two features.", ""
    else:
        # The features are centred already, unless they are sparse, where centring would fill them.
        svd = TruncatedSVD(2, random_state=seed).set_output(transform="default").fit(X)
        Z = svd.transform(X)[kept]
        names = ("1st principal direction", "2nd principal direction")
        share = 100 * float(svd.explained_variance_ratio_.sum())
        label = " of a refit"
        plane = (
            f"Not the model of the table: the method is fitted anew ({method.fast}) to the data's first two "
            f"principal directions, which hold {share:.0f} % of their variance."
        )
    settings = method.settings_for(Z, y[kept])
    estimator = method.make(method.fast, settings, seed=seed).fit(Z, y[kept])
    classes = [_name(str(name)) for name in data.target_names]
    figure = decision_boundary(estimator, Z, y[kept], axis_names=names, class_names=classes)
    some = "" if len(kept) == len(y) else f" {len(kept)} of {len(y)} samples, drawn at random."
    error = 100 * (1 - estimator.score(Z, y[kept]))
    caption = f"{plane}{some} Training error here {error:.1f} %"
    if label and row is not None:
        model = 100 * (1 - row.estimator.score(data.X_train, y))
        caption += f"; of the model in the table, on all features, {model:.1f} %"
    image = svg(figure, f"Decision boundary{label} of {method.title} on {data.name}")
    return Picture(image, f"Decision boundary{label}", f"{caption}.")


def _name(text: str) -> str:
    """A class's name as a legend shows it: no formula, never left out, cut where there is no room."""
    text = visible(text).strip() or "(no name)"
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


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

    Parameters
    ----------
    figure : Figure
        The figure.
    label : str
        What it shows, for readers that do not see it.
    as_wide : bool
        Whether it keeps its size; by default it gets a phone's, for which its letters are large enough.
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
