"""Mutations of claims that the checker is to refuse: ``python -m benchmarks.campaign.claims [COUNT] [SEED]``.

One thing of a small claim, or of its data, is broken, and the checker is run. A mutation that leaves the
format has to be refused. Any other that the checker accepts must still be true: the samples as scikit-learn
reads them are those of the claim, and a second checker, written from FORMAT.md alone, believes it. The output
has to be ASCII, with one verdict at the end. The table counts by kind of mutation.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

import polyopt
from benchmarks.campaign.mutated_claims import KINDS, REFUSED, mutated
from benchmarks.campaign.reader_of_claims import is_true
from polyopt.check import check as checker

__all__ = ["MACHINES", "Outcome", "claims_of", "mutate", "run"]

_FEW: dict[str, Any] = {"n_faces": 2, "solver": "exact", "n_init": 1, "random_state": 0}
_ONE: dict[str, Any] = {"n_faces": 2, "n_init": 1, "random_state": 0}
_CPM = polyopt.ConvexPolytopeMachine
MACHINES: dict[str, Any] = {
    "svm": polyopt.SVM(C=0.7, kernel="linear"),
    "pairs": polyopt.SVM(kernel="linear"),
    "rmm": polyopt.RelativeMarginMachine(C=2.0, B=1.6, kernel="linear"),
    "sigma": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="linear"),
    "poly": polyopt.SVM(C=1.0, kernel="poly", degree=2, coef0=1.0),
    "rbf": polyopt.RelativeMarginMachine(C=1.0, B=1.3, kernel="rbf"),
    "expansion": polyopt.OneNormSVM(C=1.0, kernel="rbf"),
    "cpm": _CPM(l1=0.3, signs=[1, 0], **_FEW),
    "worst": _CPM(margin="worst", loss="max", group=0.5, feature_groups=[0, 0], **_FEW),
    "tree": _CPM(n_faces=2, C=0.5, solver="global", time_limit=2, random_state=0),
    "l0": polyopt.CrossEntropySVM(C=1.0, kernel="rbf", solver="global", time_limit=2),
    "polyceptron": polyopt.Polyceptron(solver="highs", **_ONE),
    "spla1": polyopt.SPLA1(**_ONE),
    "plume": polyopt.PLUME(gamma=0.7, **_ONE),
    "logistic": polyopt.LogisticPolytopes(n_faces=(1, 2), n_init=1, random_state=0),
    "ray": None,
}
_MOST_SECONDS, _MOST_BYTES = 60.0, 1 << 30


@dataclass
class Outcome:
    """Counts of mutations by kind, and what should not be."""

    refused: Counter[str] = field(default_factory=Counter)  # by kind of mutation; those accepted are true
    accepted: Counter[str] = field(default_factory=Counter)
    # false claims that were accepted, tracebacks, overruns and other lines than there should be
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds of the slowest check


@cache
def claims_of(name: str) -> tuple[dict[str, Any], bytes]:
    """A file of claims about 12 samples by one of the machines, and its data in the svmlight format."""
    rng = np.random.default_rng(7)
    n = 15 if name == "pairs" else 8 if name in ("tree", "l0") else 12
    X = rng.normal(size=(n, 2)).round(3)
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.8 * rng.normal(size=n) > 0.6, 1, -1)
    y[:2] = 1, -1
    if name == "pairs":
        y = np.repeat([3, 1, 2], 5)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        claim, data = Path(folder) / "c.json", Path(folder) / "c.svm"
        if name == "ray":
            line, y = np.array([[0.0], [1.0], [0.25], [2.0]]), np.array([1, -1, -1, 1])
            found = polyopt.certify_svm(line, y, np.inf, alpha=[0.875, 0.0, 1.0, 0.125])
        else:
            found = MACHINES[name].fit(X, y).certificate()
        if name == "pairs":
            found.save(claim)
            rows = (
                f"{label} 1:{a!r} 2:{b!r}\n" for label, (a, b) in zip(y.tolist(), X.tolist(), strict=True)
            )
            data.write_text("".join(rows), encoding="ascii")
        else:
            found.save(claim, data=data)
        return json.loads(claim.read_text(encoding="ascii")), data.read_bytes()


def _samples(data: bytes, told: dict[str, Any], m: int) -> tuple[list[list[float]], list[int]]:
    """The samples of one claim's data as scikit-learn reads them."""
    X, labels = load_svmlight_file(io.BytesIO(data), n_features=m, zero_based=False)
    rows = [i for first, end in told["rows"] for i in range(first, end)]
    signs = {float(told["labels"]["-1"]): -1, float(told["labels"]["+1"]): 1}
    return X[rows].toarray().tolist(), [signs[label] for label in labels[rows].tolist()]


def _is_still_true(told: dict[str, Any], data: bytes, name: str) -> bool:
    """True if every claim is, of the samples that it was written for."""
    original, cells = claims_of(name)
    known = {claim["data"]["sha256"]: claim["data"] for claim in original["claims"]}
    for claim in told["claims"]:
        before = known[claim["data"]["sha256"]]
        X, y = _samples(cells, before, before["features"])
        read = _samples(data, claim["data"], claim["data"]["features"])
        if read != (X, y) or not is_true(claim, X, y):
            return False
    return True


def mutate(name: str, kind: str, draw: random.Random, folder: Path, outcome: Outcome) -> bool:
    """Break one thing of a machine's claims, run the checker, and count what it says.

    Return False if the claims have no place for such a mutation.
    """
    found = mutated(*claims_of(name), draw, kind)
    if found is None:
        return False
    text, data = found
    (folder / "c.json").write_text(text, encoding="utf-8")
    (folder / "c.svm").write_bytes(data)
    said, started = io.StringIO(), time.process_time()
    try:
        with contextlib.redirect_stdout(said):
            status = checker.main([str(folder / "c.json"), str(folder / "c.svm")])
    except BaseException as error:
        outcome.faults.append(f"{name}, {kind}: {type(error).__name__} {error}")
        return True
    seconds = time.process_time() - started
    outcome.slowest = max(outcome.slowest, seconds)
    lines = said.getvalue().splitlines()
    verdicts = [line for line in lines if line == "Every step holds." or line.startswith("Refused: ")]
    is_clean = verdicts == lines[-1:] and said.getvalue().isascii() and (status == 0) == (lines[-1][0] == "E")
    if not is_clean or "a file is broken" in lines[-1] or seconds > _MOST_SECONDS:
        outcome.faults.append(f"{name}, {kind}, {seconds:.0f} s: {lines[-1:]}")
    (outcome.refused if status else outcome.accepted)[kind] += 1
    if status == 0 and (kind in REFUSED or not _is_still_true(json.loads(text), data, name)):
        outcome.faults.append(f"{name}, {kind}: accepted {text} {data!r}")
    return True


def run(count: int, seed: int = 0) -> Outcome:
    """Mutations of all kinds and claims in turn."""
    draw, outcome, made = random.Random(seed), Outcome(), 0
    with tempfile.TemporaryDirectory() as folder:
        while made < count:
            for kind in KINDS:
                made += made < count and mutate(
                    draw.choice(list(MACHINES)), kind, draw, Path(folder), outcome
                )
    return outcome


def main() -> int:
    """Print the table; the exit status is 1 if something should not be."""
    numbers = [int(text) for text in sys.argv[1:]]
    outcome = run(*(numbers or [20_000]))
    for kind in KINDS:
        print(f"{kind:22} refused {outcome.refused[kind]:6}   accepted, and true {outcome.accepted[kind]:6}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"slowest check {outcome.slowest:.2f} s; memory of the whole run {peak / 1e6:.0f} MB")
    for fault in outcome.faults:
        print(fault[:1500])
    return int(bool(outcome.faults) or peak > _MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
