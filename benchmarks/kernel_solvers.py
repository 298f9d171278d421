"""The exact program, decomposition and scikit-learn's SVC on built-in data: seconds, certified gaps.

RBF, C = 10, the RMM at B = 1.5; seconds by the clock, medians of three interleaved rounds. The exact program
goes through cvxpy. SVC's gap is certified from its multipliers, as ours are. The tolerance is 1e-3; where
Newton's method ends a decomposition, it goes far beyond.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.helpers.timing import race
from polyopt import SVM, RelativeMarginMachine, certify_svm, datasets


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for name in ("sonar",) if smoke else ("sonar", "ionosphere", "wdbc"):
        data = datasets.load(name)
        X, y = StandardScaler().fit_transform(data.X), data.y
        entrants = {
            "SVM, exact": SVM(C=10.0, solver="exact"),
            "SVM, decomposition": SVM(C=10.0, solver="decomposition", tol=1e-3),
            "RMM, decomposition": RelativeMarginMachine(C=10.0, B=1.5, solver="decomposition", tol=1e-3),
            "SVC (LIBSVM)": SVC(C=10.0, tol=1e-3),
        }
        calls = {label: partial(machine.fit, X, y) for label, machine in entrants.items()}
        seconds = race(calls, rounds=1 if smoke else 3)
        for label, machine in entrants.items():
            certificate = _of_svc(machine, X, y) if isinstance(machine, SVC) else machine.certificate()
            rows.append(
                {
                    "data": f"{name} {X.shape}",
                    "solver": label,
                    "seconds": seconds[label],
                    "times SVC": seconds[label] / seconds["SVC (LIBSVM)"],
                    "relative gap": certificate.relative_gap,
                }
            )
    return pd.DataFrame(rows)


def _of_svc(machine: SVC, X, y):
    """The certificate of a machine that is not ours, from its multipliers."""
    signs = np.where(y == machine.classes_[1], 1.0, -1.0)
    coef = np.zeros(len(y))
    coef[machine.support_] = machine.dual_coef_[0]
    K = rbf_kernel(X, gamma=1.0 / (X.shape[1] * X.var()))
    b = float(machine.intercept_[0])
    return certify_svm(K, signs, machine.C, w=coef, b=b, alpha=coef * signs, precomputed=True)
