"""Peak memory of a large kernel machine on Linux, MNIST 2 against the rest, next to its parts.

RBF, C = 10, a kernel cache of 500 MB, in a fresh process for each size. The last column is what is neither
the data twice (the model's copy, and an operand in single precision) nor the cache: below 0 where the cache
was not filled.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd

CACHE = 500
SCRIPT = """
import json, re, sys, time
from pathlib import Path
import numpy as np
from polyopt import SVM, datasets
n, cache = int(sys.argv[1]), float(sys.argv[2])


def memory(kind):
    # Linux: VmRSS is what is resident now, VmHWM its peak since the last reset.
    status = Path("/proc/self/status").read_text()
    return int(re.search(kind + r":\\s+(\\d+)", status).group(1)) / 1024


try:
    data, top = datasets.load("mnist" if n > 2000 else "digits"), 255 if n > 2000 else 16
except datasets.DatasetUnavailable:
    data, top = datasets.load("digits"), 16
X = (data.X[:n] / np.float32(top)).astype(np.float32)
y = np.where(data.y[:n] == 2, 1, -1)
del data
SVM(C=10.0, gamma=0.02, solver="decomposition").fit(X[:2100], y[:2100])
Path("/proc/self/clear_refs").write_text("5")
before, started = memory("VmRSS"), time.process_time()
machine = SVM(C=10.0, gamma=0.02, solver="decomposition", cache_size=cache).fit(X, y)
print(json.dumps({"n": len(y), "data": X.nbytes / 2**20, "before": before, "peak": memory("VmHWM"),
                  "seconds": time.process_time() - started, "status": machine.solution_.status.name,
                  "support vectors": len(machine.support_)}))
"""


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for n in (1000,) if smoke else (15_000, 30_000, 60_000):
        command = [sys.executable, "-c", SCRIPT, str(n), str(CACHE)]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append(
            {
                "samples": out["n"],
                "support vectors": out["support vectors"],
                "status": out["status"],
                "CPU seconds": out["seconds"],
                "MB of X": out["data"],
                "MB before": out["before"],
                "MB at the peak": out["peak"],
                # The model's copy of X and its operand in single precision, and the cache.
                "MB beyond 2 X and the cache": out["peak"] - out["before"] - 2 * out["data"] - CACHE,
            }
        )
    return pd.DataFrame(rows)
