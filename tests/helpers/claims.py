"""A claim of every form that polyopt writes, its samples, and the checker's verdict on it."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import polyopt
from polyopt.certificates import Certificate
from polyopt.check import check as checker

_ONE: dict[str, Any] = {"n_faces": 2, "n_init": 1, "random_state": 0}
_CPM, _LOGISTIC, _PENALTY = polyopt.ConvexPolytopeMachine, polyopt.LogisticPolytopes, polyopt.FacePenalty
_FEW: dict[str, Any] = {"n_faces": (1, 2), "n_init": 1, "random_state": 0}
MACHINES: dict[str, Any] = {
    "svm": polyopt.SVM(C=0.7, kernel="linear", class_weight={"in": 1.3, "out": 1.0}),
    "rmm": polyopt.RelativeMarginMachine(C=2.0, B=1.6, kernel="linear"),
    "soft-rmm": polyopt.RelativeMarginMachine(C=2.0, B=1.6, bound_cost=1.0, kernel="linear"),
    "sigma": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="linear"),
    "svm-poly": polyopt.SVM(C=1.0, kernel="poly", degree=2, coef0=1.0),
    "rmm-rbf": polyopt.RelativeMarginMachine(C=1.0, B=1.3, kernel="rbf"),
    "sigma-rbf": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="rbf"),
    "one-norm": polyopt.OneNormSVM(C=1.0, kernel="linear"),
    "one-norm-rbf": polyopt.OneNormSVM(C=1.0, kernel="rbf"),
    "cpm": _CPM(solver="exact", **_ONE),
    "cpm-max": _CPM(loss="max", solver="exact", **_ONE),
    "cpm-worst": _CPM(penalty=_PENALTY(margin="worst"), solver="exact", **_ONE),
    "cpm-signs": _CPM(penalty=_PENALTY(l1=0.3, signs=[1, 0, 0]), solver="exact", **_ONE),
    "cpm-groups": _CPM(penalty=_PENALTY(group=0.5, feature_groups=[0, 0, 1]), solver="exact", **_ONE),
    "cpm-integers": _CPM(penalty=_PENALTY(integers=4), **_ONE),
    "polyceptron": polyopt.Polyceptron(solver="highs", **_ONE),
    "pc-slp": polyopt.PCSLP(**_ONE),
    "spla1": polyopt.SPLA1(positives="all", **_ONE),
    "plume": polyopt.PLUME(gamma=0.7, **_ONE),
    "plume-even": polyopt.PLUME(gamma=0.0, **_ONE),
    "logistic": _LOGISTIC(**_FEW),
    "logistic-signs": _LOGISTIC(penalty=_PENALTY(l1=0.3, signs={0: 1, 1: -1}), **_FEW),
    "logistic-group": _LOGISTIC(
        penalty=_PENALTY(l1=0.1, group=0.5, signs={0: 1}, feature_groups=[[1, 2]]), **_FEW
    ),
    "logistic-numbers": _LOGISTIC((0, 2), penalty=_PENALTY(l1=0.1), max_numbers=4, n_init=1, random_state=0),
}
TREES: dict[str, Any] = {
    "faces": _CPM(n_faces=3, solver="global", random_state=0),
    "pattern": polyopt.CrossEntropySVM(C=1.3, kernel="rbf", gamma=0.5, solver="global", random_state=0),
}
PATTERN_WEIGHTS = np.resize([0.5, 1.0, 2.0], 8)
FORMS = [*MACHINES, *TREES, "ray"]


@dataclass(frozen=True)
class Saved:
    """A certificate, the claims in its file, and the lines of its samples."""

    certificate: Certificate
    told: dict[str, Any]
    lines: list[str]

    @property
    def claim(self):
        return self.told["claims"][0]

    def samples(self):
        """Return the samples as lists and their labels."""
        rows = [line.split() for line in self.lines]
        cells = [dict(cell.split(":") for cell in row[1:]) for row in rows]
        width = self.claim["data"]["features"]
        X = [[float(row.get(str(j + 1), 0.0)) for j in range(width)] for row in cells]
        return X, [int(row[0]) for row in rows]


def samples_of(name):
    """Samples of two classes with a curved boundary; few of them for trees."""
    n, m = {"faces": (10, 2), "pattern": (8, 2)}.get(name, (14, 3))
    rng = np.random.default_rng(8 if name == "faces" else 5)
    X = rng.normal(size=(n, m)).round(2)
    return X, np.where((X**2).sum(axis=1) + 0.6 * rng.normal(size=n) > 0.6 * m, "out", "in")


@cache
def saved(name, **settings):
    """The claim of one form; settings are those of its machine."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "ray":
            line, y = np.array([[0.0], [1.0], [0.25], [2.0]]), np.array([1, -1, -1, 1])
            found = polyopt.certify_svm(line, y, np.inf, alpha=[0.875, 0.0, 1.0, 0.125])
        else:
            machine = {**MACHINES, **TREES}[name].set_params(**settings)
            weights = PATTERN_WEIGHTS if name == "pattern" else None
            found = machine.fit(*samples_of(name), sample_weight=weights).certificate()
        claim, samples = Path(folder) / "c.json", Path(folder) / "c.svm"
        found.save(claim, data=samples)
        return Saved(found, json.loads(claim.read_text()), samples.read_text().splitlines())


def is_accepted(told, lines, folder):
    """True if the checker proves every claim of a file about the samples in these lines."""
    claim, samples = folder / "told.json", folder / "told.svm"
    claim.write_text(told if isinstance(told, str) else json.dumps(told))
    samples.write_text("\n".join(lines) + "\n")
    return checker.main([str(claim), str(samples)]) == 0
