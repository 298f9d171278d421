"""Seconds of ``polyopt compare`` with no arguments, start to end, in a fresh process.

Five methods, exact and fast, certified, on the built-in data; by the clock.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pandas as pd


def run(smoke: bool = False) -> pd.DataFrame:
    command = [sys.executable, "-m", "polyopt", "compare"]
    if smoke:
        command += ["--data", "sonar", "--methods", "svm"]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - started
    return pd.DataFrame([{"command": " ".join(["polyopt", *command[3:]]), "seconds": seconds}])
