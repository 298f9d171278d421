"""The slides' synthetic picture: one support vector against two, and against the SVM's many.

The slides draw a two-class problem in the plane, once with CE and the SVM, once with CE (1 SV) and the
one-norm SVM (2 SVs). They tell nothing of the samples, and of C that it was "set to minimize test error".
Here they are two normal classes in the plane with identity covariance and means ±(1, 1), 50 samples each, and
the kernel is x'z: the one-norm machine needs two samples to span a direction of the plane, where the 0-norm
looks for one sample that lies in it.

C is chosen on 2,000 further samples: of the machines within one standard error of the least error, that with
the fewest support vectors, and among those the one with the least error. How many there are at the least
error itself is shown as well: these errors differ by less than 2,000 samples can tell. The error is that on
20,000 samples more. CE is ``solver="global"``: that one support vector is the optimum is proven by branch and
bound, and checked by the certificate, whose claim is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from polyopt import SVM, CrossEntropySVM, OneNormSVM
from polyopt.base.files import replacing
from polyopt.plots import decision_boundary

PICTURE = Path(__file__).parent / "results" / "l0_synthetic.png"
_COSTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "CE": (CrossEntropySVM, {"solver": "global", "random_state": 0}),
    "one-norm SVM": (OneNormSVM, {}),
    "SVM": (SVM, {}),
}
_SLIDES = {"CE": "1", "one-norm SVM": "2", "SVM": "more"}


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per machine."""
    rng = np.random.default_rng(0)
    X, y = _samples(20 if smoke else 50, rng)
    choosing, last = _samples(1_000, rng), _samples(10_000, rng)
    rows, drawn = [], {}
    for name, (kind, settings) in _KINDS.items():
        machines = [kind(C, kernel="linear", **settings).fit(X, y) for C in _COSTS]
        errors = np.array([1.0 - machine.score(*choosing) for machine in machines]).round(9)
        sizes = np.array([len(machine.support_) for machine in machines])
        least = int(np.lexsort((sizes, errors))[0])
        deviation = np.sqrt(errors[least] * (1.0 - errors[least]) / len(choosing[1]))
        chosen = int(np.lexsort((errors, sizes, errors > errors[least] + deviation))[0])
        machine, vectors = machines[chosen], int(sizes[chosen])
        drawn[f"{name}: {vectors} support vector{'s' * (vectors > 1)}"] = machine
        rows.append(
            {
                "method": name,
                "support vectors": vectors,
                "slides: support vectors": _SLIDES[name],
                "at the least error": int(sizes[least]),
                "C": machine.C,
                "error, %": 100.0 * (1.0 - machine.score(*last)),
                "claim": machine.certificate().claim.name.lower(),
            }
        )
    if not smoke:
        with replacing(PICTURE) as stream:
            decision_boundary(drawn, X, y).savefig(stream, dpi=110)
    return pd.DataFrame(rows)


def _samples(each: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat([-1, 1], each)
    return rng.standard_normal((2 * each, 2)) + y[:, None], y
