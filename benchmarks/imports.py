"""Seconds to import polyopt, and to get a first answer, in a fresh process with warm caches.

By the clock, medians of five; each line is a process of its own, so that a fit contains the imports.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import pandas as pd

SCRIPTS = {
    "import polyopt": "import polyopt",
    "from polyopt import SVM": "from polyopt import SVM",
    "SVM().fit on 100 points, decomposition": (
        "from polyopt import SVM; from formulations.samples import two_blobs;"
        "SVM(solver='decomposition').fit(*two_blobs(n=100))"
    ),
    "SVM().fit on 100 points, exact": (
        "from polyopt import SVM; from formulations.samples import two_blobs;"
        "SVM(solver='exact').fit(*two_blobs(n=100))"
    ),
}
CLOCK = "import time; t = time.perf_counter()\n{}\nprint(time.perf_counter() - t)"


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for name, script in SCRIPTS.items():
        command = [sys.executable, "-c", CLOCK.format(script)]
        seconds = [
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(2 if smoke else 6)
        ]
        rows.append({"script": name, "median seconds": median(seconds[1:])})  # the first one warms caches
    return pd.DataFrame(rows)
