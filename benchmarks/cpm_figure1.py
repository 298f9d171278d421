"""Figure 1 of the CPM paper: two faces with a large margin each, and a face that wiggles in the worst case.

Hard margins, programs (1) to (5), on two sets of drawn samples; margins are those of section 3.2, for faces
of norm 1 with their bias. Figure 1a: positives in two clusters, which one line separates from the negatives
with a small margin; two faces, one for each cluster, have larger ones. Figure 1b: the face of the nearer
cluster decides the worst-case margin. The other may be turned, here as far as it goes both ways, and the
worst-case margin stays what it is; only the total margin says where it should be (1'). A claim is
"conditions" if the faces satisfy the optimality conditions of program (2) with the solver's multipliers, and
"none" otherwise: once for the worst case and once for the total margin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.kept import word_of
from formulations import cpm_margins
from formulations.language.program import Program
from formulations.polytope import assignment_matrix, face_margins, lift
from polyopt import certify_program
from polyopt.base.files import replacing

PICTURE = Path(__file__).parent / "results" / "cpm_figure1.png"
_STEP = 0.25  # degrees between the directions that a wiggling face is tried in

Samples = tuple[np.ndarray, np.ndarray, np.ndarray]


def run(smoke: bool = False) -> pd.DataFrame:
    """The margins of each polytope, and what is proven of them."""
    a, b = _samples((-2.2, 1.0), (2.2, 1.0)), _samples((-2.7, 0.6), (1.7, 0.6))
    linear, two = (_shortest(a, K) for K in (1, 2))
    best = _shortest(b, 2)
    turned = [_turned(b, best, way, 5.0 if smoke else _STEP) for way in (1.0, -1.0)]
    if not smoke:
        _draw(a, b, linear, two, best, turned)
    rows = [
        _row("1a, one face", a, linear),
        _row("1a, two faces", a, two),
        _row("1b, faces 1' and 2", b, best),
        *(
            _row(f"1b, face 1 turned {name}", b, W, best)
            for name, W in zip(("left", "right"), turned, strict=True)
        ),
    ]
    return pd.DataFrame(rows)


def _samples(left: tuple[float, float], right: tuple[float, float]) -> Samples:
    """Negatives around (0, -0.5), positives around two points: samples, labels, and positives' clusters."""
    rng = np.random.default_rng(1)
    centres, radii = np.array([left, right, (0.0, -0.5)]), np.array([0.6, 0.6, 0.75])
    which = np.repeat([0, 1, 2], [14, 14, 20])
    angles, distances = rng.uniform(0.0, 2.0 * np.pi, len(which)), np.sqrt(rng.uniform(size=len(which)))
    around = distances[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    X = centres[which] + radii[which][:, None] * around
    return X, np.where(which < 2, 1.0, -1.0), np.where(which < 2, which, -1)


def _shortest(samples: Samples, K: int) -> np.ndarray:
    """The faces of norm 1 that (4)-(5) has, each positive on the face of its cluster."""
    X, y, cluster = samples
    W = cpm_margins.hard_total(X, y, K, np.minimum(cluster, K - 1)).solve()["W"]
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def _turned(samples: Samples, W: np.ndarray, way: float, step: float) -> np.ndarray:
    """The faces, the first turned as far as the worst-case margin of the second allows."""
    X, y, cluster = samples
    least = face_margins(X, y, W)[0].min()
    own, inside = X[cluster == 0], X[y < 0]
    start = np.arctan2(W[0, 1], W[0, 0])
    lengths = np.linspace(0.0, 1.0, 2001)[1:]  # of the normal; the bias has the rest of the norm at most
    found = W[0]
    for turn in np.arange(step, 180.0, step):
        normal = np.array([np.cos(start + way * np.radians(turn)), np.sin(start + way * np.radians(turn))])
        low, high = least - lengths * (own @ normal).min(), -least - lengths * (inside @ normal).max()
        bias = np.clip(0.0, low, np.maximum(low, high))  # the smallest between its ends
        fits = (low <= high) & (lengths**2 + bias**2 <= 1.0)
        if not fits.any():
            break
        at = int(np.argmax(np.where(fits, lengths, 0.0)))
        found = np.array([*(lengths[at] * normal), bias[at]])
    return np.vstack([found / np.linalg.norm(found), W[1:]])


def _row(name: str, samples: Samples, W: np.ndarray, best: np.ndarray | None = None) -> dict[str, Any]:
    X, y, cluster = samples
    margins, _ = face_margins(X, y, W)
    assignment = np.minimum(cluster, len(W) - 1)
    angle = np.nan if best is None else _degrees(W[0]) - _degrees(best[0])
    return {
        "polytope": name,
        "margin of face 1": margins[0],
        "margin of face 2": margins[1] if len(W) > 1 else np.nan,
        "worst-case margin": margins.min(),
        "total margin": margins.sum(),
        "turned by, degrees": (angle + 180.0) % 360.0 - 180.0,
        "worst case": _claim(cpm_margins.worst(X, y, len(W), assignment), samples, W),
        "total": _claim(cpm_margins.total(X, y, len(W), assignment), samples, W),
    }


def _degrees(w: np.ndarray) -> float:
    return float(np.degrees(np.arctan2(w[1], w[0])))


def _claim(program: Program, samples: Samples, W: np.ndarray) -> str:
    """The claim of faces of norm 1 with the multipliers of the program's solution."""
    X, y, cluster = samples
    Z = assignment_matrix(y, len(W), np.minimum(cluster, len(W) - 1))
    zeta = np.where(Z > 0, y[:, None] * (lift(X) @ W.T), np.inf).min(axis=0)
    if program.name == "cpm_margin.worst":
        zeta = zeta.min()
    duals = program.solve().duals
    return word_of(certify_program(program, {"W": W, "zeta": zeta}, duals).claim)


def _draw(
    a: Samples, b: Samples, linear: np.ndarray, two: np.ndarray, best: np.ndarray, turned: list[np.ndarray]
) -> None:
    from polyopt.plots.figure import CLASSES, GREEN, MUTED, PURPLE, new_figure, styled

    with styled():
        figure = new_figure(8.4, 3.0)
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, (X, y, _) in ((left, a), (right, b)):
            for (colour, marker), label in zip(CLASSES, (-1, 1), strict=True):
                axes.scatter(*X[y == label].T, s=16, c=colour, marker=marker, linewidths=0)
            axes.set(xlim=(-3.8, 3.4), ylim=(-1.3, 1.9), xlabel="$x_1$", aspect="equal")
        _line(left, linear[0], PURPLE, "--", "one face")
        for k, w in enumerate(two):
            _line(left, w, GREEN, "-", "" if k else "two faces")
        for w, line, name in (
            (best[1], "-", "face 2"), (turned[0][0], "-", "face 1, turned both ways"),
            (turned[1][0], "-", ""), (best[0], "--", "face 1', by the total margin"),
        ):  # fmt: skip
            colour = {"face 2": GREEN, "face 1', by the total margin": PURPLE}.get(name, MUTED)
            _line(right, w, colour, line, name)
        left.set(ylabel="$x_2$", title="a. Two faces have larger margins")
        right.set_title("b. In the worst case face 1 wiggles")
        for axes in (left, right):
            axes.legend(
                loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7.5, handlelength=2.6
            )
        PICTURE.parent.mkdir(exist_ok=True)
        with replacing(PICTURE) as stream:
            figure.savefig(stream, dpi=110)


def _line(axes: Any, w: np.ndarray, colour: str, line: str, name: str) -> None:
    """The line w·(x, 1) = 0 across the panel."""
    foot, along = -w[2] * w[:2] / (w[:2] @ w[:2]), np.array([-w[1], w[0]]) / np.linalg.norm(w[:2])
    ends = foot + np.outer([-8.0, 8.0], along)
    axes.plot(*ends.T, color=colour, linestyle=line, linewidth=1.5, label=name or None)
