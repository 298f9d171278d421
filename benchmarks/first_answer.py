"""CPU seconds to a first answer in a new process: import, first fit, second fit, first certificate.

300 samples of two overlapping classes with 3 features; each machine with the settings of its method and the
solver that is chosen by size. Each line is the median of three processes. Nothing is kept from one process to
the next, so that a new installation takes as long. scikit-learn's import is in every line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import pandas as pd

from polyopt.methods import METHODS

PROCESSES = 3
STEPS = ("import", "first fit", "second fit", "certificate")
RIVALS = {
    "SVC": ("sklearn.svm", "SVC()"),
    "LinearSVC": ("sklearn.svm", "LinearSVC()"),
    "EBM": ("interpret.glassbox", "ExplainableBoostingClassifier(n_jobs=1)"),
}
OURS = """
from polyopt.methods import METHODS
method = METHODS[{name!r}]
method.estimator_class
"""
OUR_FIT = "method.make('auto', method.settings_for(X, y)).fit(X, y)"
SCRIPT = """
import json, time, warnings
marks = [time.process_time()]
{imports}
marks.append(time.process_time())
from formulations.language.toy_data import two_blobs
X, y = two_blobs(n={samples})
warnings.simplefilter("ignore")
begun = time.process_time()
machine = {fit}
marks.append(marks[-1] + time.process_time() - begun)
for step in ({fit!r}, {certify!r}):
    begun = time.process_time()
    exec(step)
    marks.append(marks[-1] + time.process_time() - begun)
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""


def seconds_of(script: str) -> list[float]:
    """CPU seconds of each step in a process of its own."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def run(
    smoke: bool = False,
    rivals: Mapping[str, tuple[str, str]] = RIVALS,
    measured: Callable[[str], list[float]] = seconds_of,
) -> pd.DataFrame:
    """Return a row of seconds for each machine; `measured` gives the seconds of a script's steps."""
    names, count = (["svm", "cpm"], 1) if smoke else (list(METHODS), PROCESSES)
    samples = 60 if smoke else 300
    scripts = {
        name: SCRIPT.format(
            imports=OURS.format(name=name), fit=OUR_FIT, certify="machine.certificate()", samples=samples
        )
        for name in names
    }
    for name, (module, call) in rivals.items():
        if find_spec(module.partition(".")[0]) is None:
            print(f"first_answer: {name} is left out, as {module} is not installed")
            continue
        kind = call.partition("(")[0]
        imports = f"from {module} import {kind}"
        scripts[name] = SCRIPT.format(imports=imports, fit=f"{call}.fit(X, y)", certify="", samples=samples)
    rows: list[dict[str, Any]] = []
    for name, script in scripts.items():
        seconds = pd.DataFrame([measured(script) for _ in range(count)], columns=list(STEPS)).median()
        if name in rivals:
            seconds["certificate"] = float("nan")
        answer = seconds["import"] + seconds["first fit"]
        rows.append({"machine": name, **seconds, "import and first fit": answer})
    return pd.DataFrame(rows)
