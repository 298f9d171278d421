"""Figure 1 of the RMM paper: as the first axis is stretched, the SVM's boundary moves and the RMM's does not.

Two classes along two parallel lines; the first axis is multiplied by s, which changes nothing but a unit.
The RMM with B = 1 gives every sample the output ±1, and so divides the same points at every s. The SVM looks
at the two nearest samples alone: its boundary turns, in the end across the lines. The Sigma-SVM with D = 1
does not move either; with D below 1 it does. Angles are of the boundary in the unstretched axes, in degrees.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from polyopt import SVM, RelativeMarginMachine, SigmaSVM
from polyopt.base.files import replacing
from polyopt.datasets import make_two_lines

PICTURE = Path(__file__).parent / "results" / "rmm_figure1.png"
_DRAWN = (1.0, 3.0, 10.0)  # stretches that get a panel
_COST = 1e4  # so large that the margin is hard
_MACHINES = {
    "SVM": SVM(C=_COST, kernel="linear"),
    "Sigma-SVM, D = 0.9": SigmaSVM(C=_COST, D=0.9, kernel="linear"),
    "RMM, B = 1": RelativeMarginMachine(C=_COST, B=1.0, kernel="linear"),
}


def run(smoke: bool = False) -> pd.DataFrame:
    """The boundaries' angles at each stretch, and for the SVM and the RMM those of the closed forms."""
    stretches = _DRAWN if smoke else (0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
    rows = []
    for s in stretches:
        X, y = make_two_lines(60, scale=s, random_state=0)
        row = {"stretch": s, **{name: _angle(machine.fit(X, y), s) for name, machine in _MACHINES.items()}}
        rows.append({**row, "SVM, exact": np.degrees(np.arctan2(s**2, -3.0)), "RMM, exact": 45.0})
    table = pd.DataFrame(rows)
    if not smoke:
        _draw()
    return table


def _angle(machine: Any, s: float) -> float:
    """Degrees from the first axis, unstretched, to the boundary w₁ s z₁ + w₂ z₂ = 0; within [0, 180)."""
    w = machine.coef_[0] * (s, 1.0)
    return float(np.degrees(np.arctan2(-w[0], w[1])) % 180.0)


def _draw() -> None:
    """Above, the samples and both boundaries with the lines of output ±1; below, the samples' outputs."""
    from polyopt.plots.figure import CLASSES, GREEN, GRID, INK, PURPLE, new_figure, styled

    drawn = (("SVM", "SVM", PURPLE, "--"), ("RMM, B = 1", "RMM, $B = 1$", GREEN, "-"))
    with styled():
        figure = new_figure(8.4, 4.9)
        axes = figure.subplots(2, len(_DRAWN), height_ratios=(2.6, 1.0), sharey="row")
        for (above, below), s in zip(axes.T, _DRAWN, strict=True):
            X, y = make_two_lines(60, scale=s, random_state=0)
            for (colour, marker), label in zip(CLASSES, (-1, 1), strict=True):
                sign = "class +1" if label > 0 else "class −1"
                above.scatter(*X[y == label].T, s=14, c=colour, marker=marker, linewidths=0, label=sign)
            corners = np.array([-1.3 * s, 1.3 * s]), np.array([-1.8, 1.8])
            x1, x2 = np.meshgrid(*corners)
            for height, (name, title, colour, line) in zip((1.0, 0.0), drawn, strict=True):
                machine = _MACHINES[name].fit(X, y)
                outputs = machine.decision_function(np.column_stack([x1.ravel(), x2.ravel()])).reshape(2, 2)
                style = {"colors": colour, "linestyles": line}
                above.contour(x1, x2, outputs, [0.0], linewidths=1.8, **style)
                above.contour(x1, x2, outputs, [-1.0, 1.0], linewidths=0.7, alpha=0.7, **style)
                above.plot([], [], color=colour, linestyle=line, linewidth=1.8, label=title)
                for (shade, marker), label in zip(CLASSES, (-1, 1), strict=True):
                    f = machine.decision_function(X[y == label])
                    below.scatter(f, np.full(len(f), height), s=12, c=shade, marker=marker, linewidths=0)
            # Panels show the same points: the axis is drawn in the unit that the data are stretched by.
            above.set(
                title=f"first axis × {s:g}", xlabel="$x_1$, drawn × 1/" + f"{s:g}" if s != 1.0 else "$x_1$"
            )
            above.set_xticks([-s, 0.0, s], [f"{-s:g}".replace("-", "−"), "0", f"{s:g}"])
            for level in (-1.0, 1.0):
                below.axvline(level, color=GRID, linewidth=1.0, zorder=0)
            below.set(xlim=(-4.4, 4.4), ylim=(-0.6, 1.6), xlabel="output $w \\cdot x + b$")
            below.spines["left"].set_visible(False)
            below.tick_params(axis="y", length=0, labelcolor=INK)
        axes[0, 0].set_ylabel("$x_2$")
        axes[1, 0].set_yticks([0.0, 1.0], ["RMM", "SVM"])
        lines, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside upper center", ncols=len(names), handlelength=2.4)
        PICTURE.parent.mkdir(exist_ok=True)
        with replacing(PICTURE) as stream:
            figure.savefig(stream, dpi=110)
