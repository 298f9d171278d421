"""The faces of a model side by side, each as the bars of its weightiest features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import whole
from polyopt.base.text import cut_short, in_picture
from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import BLUE, MUTED, ORANGE, styled
from polyopt.plots.subject import machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

    from polyopt.explanations import ModelExplanation
    from polyopt.explanations.model import FaceRole
    from polyopt.plots.sheet import Places

__all__ = ["face_weights"]


def face_weights(
    explanation: ModelExplanation | BaseEstimator,
    most: int = 6,
    columns: int = 2,
    *,
    ax: Places | None = None,
) -> Drawn:
    """Each face as a bar chart: the weights of its features times their spreads, the largest first.

    A bar to the right pulls towards the outside where the feature is large, one to the left where it is
    small. Faces that answer for most samples come first, up to 12.

    Parameters
    ----------
    explanation : ModelExplanation or estimator
        What ``explain_model`` gives, or a fitted machine, which is explained by the data of its fit.
    most : int
        Features of each face; how much weight the others have stands below the bars.
    columns : int
        Faces beside each other.
    ax : Axes or array of Axes, optional
        Where to draw: axes for each panel, or one whose place they share; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    TypeError
        Neither an explanation nor a machine with faces.
    """
    machine = machine_of(explanation)
    if hasattr(machine, "explain_model"):
        explanation = machine.explain_model()
    if not hasattr(explanation, "faces"):
        raise TypeError(
            "explanation must be one of explain_model, or a machine with faces, "
            f"not {type(explanation).__name__}"
        )
    most, columns = whole("most", most), whole("columns", columns)
    roles = sorted(explanation.faces, key=lambda role: -role.answers)[:12]
    columns = min(columns, len(roles))
    rows = -(-len(roles) // columns)
    deepest = min(most, max((len(role.weights) for role in roles), default=1)) or 1
    with styled():
        sheet = Sheet(ax, 3.6 * columns, (0.2 * deepest + 0.85) * rows)
        panels = sheet.grid(rows, columns).ravel()
        reach = max((abs(weight) for role in roles for _, weight in role.weights), default=1.0)
        for axes, role in zip(panels, roles, strict=False):
            name = (
                f"{role.name[0]}.{role.name[1]}" if explanation.subject.kind != "polytope" else role.name[1]
            )
            _draw(axes, role, most, reach, f"face {name}")
        for axes in panels[len(roles) :]:
            axes.set_axis_off()
    return sheet.drawn


def _draw(axes: Axes, role: FaceRole, most: int, reach: float, name: str) -> None:
    shown, hidden = role.weights[:most], role.weights[most:]
    places = np.arange(len(shown))
    weights = np.array([weight for _, weight in shown])
    axes.barh(places, weights, color=[ORANGE if weight > 0 else BLUE for weight in weights], height=0.7)
    axes.set_yticks(places, [in_picture(cut_short(text, 22)) for text, _ in shown])
    axes.invert_yaxis()
    axes.axvline(0.0, color=MUTED, lw=0.8)
    axes.set_xlim(-1.05 * reach, 1.05 * reach)
    axes.tick_params(labelsize=7.5, length=0)
    axes.set_title(f"{name}, answers for {role.answers}", fontsize=9)
    if hidden:
        total = sum(abs(weight) for _, weight in role.weights)
        rest = sum(abs(weight) for _, weight in hidden) / total
        axes.set_xlabel(
            f"{len(hidden)} others have {100 * rest:.0f} % of the weight", fontsize=7.5, color=MUTED
        )
