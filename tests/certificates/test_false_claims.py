"""No false claim is proven: changes of data, numbers, multipliers and programs, each known to be wrong."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from helpers.false_claims import Falsifier

import polyopt
from polyopt.check import check as checker

FEW = {"n_faces": 2, "solver": "exact", "n_init": 1, "random_state": 0}
MACHINES = {
    "svm": polyopt.SVM(C=0.7, kernel="linear"),
    "rmm": polyopt.RelativeMarginMachine(C=2.0, B=1.6, kernel="linear"),
    "max": polyopt.ConvexPolytopeMachine(loss="max", **FEW),
    "worst": polyopt.ConvexPolytopeMachine(penalty=polyopt.FacePenalty(margin="worst"), **FEW),
    "groups": polyopt.ConvexPolytopeMachine(
        penalty=polyopt.FacePenalty(group=0.5, feature_groups=[0, 0, 1]), **FEW
    ),
    "prices": polyopt.ConvexPolytopeMachine(penalty=polyopt.FacePenalty(l1=0.3, signs=[1, 0, 0]), **FEW),
    "integers": polyopt.ConvexPolytopeMachine(
        penalty=polyopt.FacePenalty(integers=4), n_faces=2, n_init=1, random_state=0
    ),
    "sigma": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="linear"),
    "rbf": polyopt.RelativeMarginMachine(C=1.0, B=1.3, kernel="rbf"),
    "one-norm": polyopt.OneNormSVM(C=1.0, kernel="poly", degree=2, coef0=1.0),
    "polyceptron": polyopt.Polyceptron(n_faces=2, solver="highs", n_init=1, random_state=0),
    "spla1": polyopt.SPLA1(n_faces=2, n_init=1, random_state=0),
    "plume": polyopt.PLUME(n_faces=2, gamma=0.7, n_init=1, random_state=0),
    "logistic": polyopt.LogisticPolytopes(n_faces=(1, 2), n_init=1, random_state=0),
}
EACH = 10  # 800 for each machine, or 11,200 in all, were refused as well


@pytest.mark.parametrize("name", MACHINES)
def test_no_false_claim_is_proven(name, tmp_path):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(18, 3))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.8 * rng.normal(size=18) > 0.6, "out", "in")
    cells = tmp_path / "c.svm"
    [claim] = MACHINES[name].fit(X, y).certificate().save(tmp_path / "c.json", data=cells)
    claims = json.loads((tmp_path / "c.json").read_text())
    assert checker.main([str(tmp_path / "c.json"), str(cells)]) == 0
    false, draw = Falsifier(claim, cells), random.Random(name)
    for _ in range(EACH):
        changed, lines, what = false.draw(draw)
        (tmp_path / "d.svm").write_text("\n".join(lines))
        (tmp_path / "d.json").write_text(json.dumps(claims | {"claims": [changed]}))
        assert checker.main([str(tmp_path / "d.json"), str(tmp_path / "d.svm")]) == 1, (what, changed)
