"""The SVM with the hard-margin loss on the public instances, beside the values that were published for them.

Instances of Brooks (2011): simulated ones of 60, 100 and 200 samples and 2, 5 and 10 features with outliers
of two kinds (sets A and B), and training parts of seven data sets of the UCI, as they are distributed with
Santana, Serrano, Schiffer & Vidal (2025), github.com/vidalt/Hard-Margin-SVM; the first of each kind, C = 1,
100 and 10,000. What is known: the least value of any of their nine runs of 600 s each, and the best bound;
the seconds, on another machine, of their explicit program in CPLEX, and of the fastest of their runs with
cuts, where these ended. Here: the cross-entropy method alone, and with branch and bound after it, for 60
seconds of the clock; seconds of the processor. The excess is over the published value; a negative one is a
better point.

The instances are read from the folder ``brooks`` in the one that POLYOPT_DATA names; for a smoke run two
blobs stand in. Every cell is kept in results/hard_margin_loss.csv as it ends, and not computed again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from formulations.hard_margin_loss_data import HardMarginLossData, as_hard_margin_loss_data
from formulations.samples import two_blobs
from polyopt.datasets import DatasetUnavailable
from polyopt.files import write_text
from polyopt.outer.hard_margin_loss import solve_hard_margin_loss

RESULTS = Path(__file__).parent / "results"
KEPT, PUBLISHED = RESULTS / "hard_margin_loss.csv", RESULTS / "hard_margin_loss_published.csv"
LIMIT = 60.0


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per instance and C; of what is kept nothing is computed again."""
    folder = Path(os.environ.get("POLYOPT_DATA", "")) / "brooks"
    if smoke:
        X, y = two_blobs(n=20, m=2)
        return _shown(pd.DataFrame([_cell(as_hard_margin_loss_data(X, y, 1.0), {}, limit=2.0)]))
    if not folder.is_dir():
        raise DatasetUnavailable(
            "the instances of Brooks are not on this machine: copy the files of "
            "github.com/vidalt/Hard-Margin-SVM, folder Datasets, into a folder 'brooks' within the one that "
            "POLYOPT_DATA names"
        )
    rows: list[Any] = pd.read_csv(KEPT).to_dict("records") if KEPT.is_file() else []
    done = {(row["instance"], row["C"]) for row in rows}
    for known in pd.read_csv(PUBLISHED).to_dict("records"):
        if (known["instance"], known["C"]) not in done:
            X, y = _read(folder / str(known["instance"]))
            rows.append(_cell(as_hard_margin_loss_data(X, y, float(known["C"])), known))
            write_text(KEPT, pd.DataFrame(rows).to_csv(index=False, float_format="%.8g"))
            print(f"  {known['instance']}, C = {known['C']}: {rows[-1]['tree']:.6g}", flush=True)
    return _shown(pd.DataFrame(rows))


def _read(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The samples and labels of one file: numbers of samples and of features, then label and features."""
    numbers = path.read_text(encoding="ascii").split()
    n, m = int(numbers[0]), int(numbers[1])
    table = np.array(numbers[2 : 2 + n * (m + 1)], dtype=float).reshape(n, m + 1)
    return table[:, 1:], np.where(table[:, 0] > 0, 1.0, -1.0)


def _cell(data: HardMarginLossData, known: dict[Any, Any], limit: float = LIMIT) -> dict[str, Any]:
    row: dict[str, Any] = {"n": len(data.y), "m": data.X.shape[1], **known}
    for title, solver in (("CE", "ce"), ("tree", "global")):
        started = time.process_time()
        found, bound = solve_hard_margin_loss(data, solver, time_limit=limit)
        seconds = time.process_time() - started
        row |= {title: found.objective, f"{title}, bound": bound, f"{title}, s": seconds}
    return row


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    known = table["value"] if "value" in table else table["tree"]
    return table.assign(**{
        "CE, excess %": 100 * (table["CE"] / known - 1),
        "excess, %": 100 * (table["tree"] / known - 1),
        "gap, %": 100 * (1 - table["tree, bound"] / table["tree"]),
    })  # fmt: skip
