"""The pictures of each lecture: machines on data of the package, drawn by :mod:`polyopt.plots`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import polyopt
from polyopt import datasets, plots

Array = NDArray[Any]

_FEATURES = (7, 21)  # of wdbc: mean concave points, and worst texture
_NAMES = ("mean concave points", "worst texture")


@dataclass(frozen=True)
class Picture:
    """A picture of a lecture, by the name of its file, with a title and a caption."""

    name: str
    title: str
    caption: str
    figure: Figure


def _wdbc() -> tuple[Array, Array]:
    """Return two features of 120 samples of wdbc, standardised; 1 is a benign tumour."""
    data = datasets.load("wdbc")
    X = np.asarray(data.X, dtype=float)[:, list(_FEATURES)]
    rows = np.sort(np.random.default_rng(0).choice(len(X), 120, replace=False))
    chosen = X[rows]
    return (chosen - chosen.mean(axis=0)) / chosen.std(axis=0), np.asarray(data.y)[rows]


def _stretched() -> tuple[Array, Array]:
    """Return two classes spread along a slope."""
    rng = np.random.default_rng(0)
    y = np.repeat([-1, 1], 30)
    X = rng.normal(size=(60, 2)) @ [[1.9, 1.2], [1.2, 1.1]]
    X[:, 1] += 0.9 * y
    return X, y


def _ring() -> tuple[Array, Array]:
    """Return a disc, and a ring around it."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [40, 60])
    radius = np.where(y == 0, rng.uniform(0.0, 1.3, 100), rng.uniform(1.2, 2.6, 100))
    angle = rng.uniform(0.0, 2 * np.pi, 100)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def _optimisation() -> Iterator[Picture]:
    X, y = _wdbc()
    machines = {f"C = {C:g}": polyopt.SVM(C, kernel="linear").fit(X, y) for C in (0.01, 1.0)}
    classes = ("malignant", "benign")
    yield Picture(
        "margins", "What slack costs, and how wide the margin is",
        "Two features of wdbc. A low price of slack buys a wide margin, and many support vectors (ringed).",
        plots.decision_boundary(machines, X, y, axis_names=_NAMES, class_names=classes),
    )  # fmt: skip
    machine = machines["C = 1"]
    yield Picture(
        "multipliers", "Multipliers are prices",
        "α is 0 beyond the margin, C inside it, and between them only on it.",
        plots.multipliers(machine.duals_),
    )  # fmt: skip
    yield Picture(
        "certificate", "What is proven of the machine",
        "The gap and every condition of optimality, relative to its size, against the tolerance.",
        plots.conditions(machine.certificate()),
    )  # fmt: skip


def _rmm() -> Iterator[Picture]:
    X, y = _stretched()
    machine = polyopt.RelativeMarginMachine(C=1.0, B=1.5, kernel="linear").fit(X, y)
    yield Picture(
        "metric", "A margin that is large relative to the spread",
        "The samples at the bounds (ringed) say where the data are wide; distances count less there.",
        plots.whitening(machine),
    )  # fmt: skip
    yield Picture(
        "multipliers", "Who holds the machine",
        "α pulls at its margin, λ and λ* at the bounds B and −B, and nowhere else.",
        plots.multipliers(machine.duals_, B=1.5),
    )  # fmt: skip
    yield Picture(
        "path", "From the support vector machine downwards in B",
        "The tighter the bound, the dearer the optimum; each machine starts where the last one ended.",
        plots.path(polyopt.rmm_path(X, y, bounds=(4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.25))),
    )  # fmt: skip


def _boundaries_and_faces(
    machines: dict[str, Any], X: Any, y: Any, one: str, words: tuple[str, str, str], its: tuple[str, str, str]
) -> Iterator[Picture]:
    """Yield the boundaries of all machines, and the faces of one of them."""
    yield Picture(*words, plots.decision_boundary(machines, X, y))
    yield Picture(*its, plots.polytope_slices(machines[one], X, y))


def _cpm() -> Iterator[Picture]:
    X, y = _ring()
    machines = {
        f"{K} face{'s' if K > 1 else ''}": polyopt.ConvexPolytopeMachine(
            K, C=5.0, solver="dual", inside_label=0, n_init=2, random_state=0
        ).fit(X, y)
        for K in (1, 3, 6)
    }
    yield from _boundaries_and_faces(
        machines, X, y, "6 faces",
        ("faces", "From one hyperplane to a polytope",
         "The class inside is kept by every face; of the class outside each sample needs one."),
        ("answers", "Which face answers where",
         "Each point outside has the colour of the face with the largest score."),
    )  # fmt: skip


def _polyceptron() -> Iterator[Picture]:
    X, y = _ring()
    inside: dict[str, Any] = {"inside_label": 0, "random_state": 0}
    machines = {
        "Polyceptron": polyopt.Polyceptron(4, n_init=2, **inside).fit(X, y),
        "SPLA1": polyopt.SPLA1(4, n_init=1, **inside).fit(X, y),
        "PC-SLP": polyopt.PCSLP(4, n_init=2, **inside).fit(X, y),
    }
    yield from _boundaries_and_faces(
        machines, X, y, "Polyceptron",
        ("methods", "Three ways to a polyhedral set",
         "Four faces each, on the same samples: a perceptron for each face, logistic faces, "
         "linear programs."),
        ("answers", "Which face of the Polyceptron answers where",
         "Each point outside has the colour of the face that says so."),
    )  # fmt: skip


def _cross_entropy() -> Iterator[Picture]:
    X, y = _ring()
    few = polyopt.CrossEntropySVM(C=1.0, kernel="rbf", gamma=1.0, random_state=0).fit(X, y)
    machines = {"SVM": polyopt.SVM(1.0, kernel="rbf", gamma=1.0).fit(X, y), "few support vectors": few}
    counts = {f"{name}: {len(one.support_)}": one for name, one in machines.items()}
    yield Picture(
        "support", "Paying for each support vector",
        "The same kernel and the same C; ringed are the samples whose kernel is used.",
        plots.decision_boundary(counts, X, y),
    )  # fmt: skip


def _plume() -> Iterator[Picture]:
    X, y = _ring()
    machine = polyopt.PLUME(4, ridge=0.1, inside_label=0, n_init=1, random_state=0).fit(X, y)
    yield Picture(
        "answers", "Four experts, and the set that they keep",
        "Each point outside has the colour of the face that answers for it.",
        plots.polytope_slices(machine, X, y),
    )  # fmt: skip


MAKERS: dict[str, Callable[[], Iterator[Picture]]] = {
    "optimisation": _optimisation, "rmm": _rmm, "cpm": _cpm, "polyceptron": _polyceptron,
    "cross_entropy": _cross_entropy, "plume": _plume,
}  # fmt: skip
