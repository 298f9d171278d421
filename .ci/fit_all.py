"""Fit every estimator of polyopt once on 60 samples of a built-in set, and print the CPU seconds of each.

Searches, which are given an estimator, and transformers are left out.
"""

import inspect
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator

import polyopt
from polyopt.native.library import level

data, chosen = polyopt.datasets.load("sonar"), np.r_[0:30, -30:0]
X, y = np.asarray(data.X)[chosen, :6], np.asarray(data.y)[chosen]
print(f"kernels for {level()}")
for name in polyopt.__all__:
    made = getattr(polyopt, name)
    if not (inspect.isclass(made) and issubclass(made, BaseEstimator) and hasattr(made, "predict")):
        continue
    if any(one.default is one.empty for one in inspect.signature(made).parameters.values()):
        continue
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = made().fit(X, y).predict(X)
    assert len(answers) == len(y)
    print(f"{name}: {time.process_time() - began:.2f} CPU s")
