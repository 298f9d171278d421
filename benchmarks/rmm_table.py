"""Table 1 of the RMM paper: test errors of SVM, Sigma-SVM, KLDA and RMM on three sets of digits.

Optical digits, USPS and MNIST; polynomial kernels of degree 1 to 7 and the RBF kernel; 45 pairs of digits
that vote. The parameters of a pair are those with the fewest validation errors, summed over five random 80:20
splits of its training samples, all of which are fitted in the end. Of MNIST, 1000 or two thirds of a pair's
samples are fitted, and the others are the validation samples; "full" fits them all with the parameters found
on two thirds. The Sigma-SVM and KLDA, which need a whole matrix and its inverse, stop at 1000.

The grids are GRIDS: C; C and B, as a share of the way from 1 to θ, the largest output of the SVM with that C
on the same samples (the paper's steps 1/2, 1/4, 1/10, and 1/20); D and C; KLDA's ε, in feature space. Of
settings with equally few validation errors, which for most pairs are many, the one with the least mean hinge
loss on the validation samples is taken.

The paper does not say how images are scaled, and which RBF width it takes. Two scalings are tried: images of
unit length, ``(x'z + 1)^d`` and ``exp(-‖x - z‖²/2)``; and pixels in [0, 1], ``(x'z + 1)^d`` and
``exp(-‖x - z‖²/2q)``, q being the mean of ``‖x‖²``. For each set of digits the one with fewer validation
errors of the SVM, summed over pairs and kernels, is taken, and the SVM's test errors with the other one are
shown as well. Kernels are divided by their mean diagonal: another unit for C. Of pairs of more than 4,000
samples their values are in single precision, and the machine is that of the matrix as it is.

Every machine is solved to a violation of 1e-3, without a limit. The column "status" has the worst end of all
solves that a line rests on, those that chose its parameters included, and the largest violation, computed
anew; a cell is marked with "!" where a solve ended otherwise, or that violation is above 1.1e-3. Where no
multiplier of a solution is at its cap C, larger C (with the same bound) share it, and the kept cells count
how many. Cells are test errors with ties of votes going to the smaller digit; in brackets, ties by lot as in
the paper: mean and standard deviation over 200 lots. (The paper's KLDA on optical digits repeats the SVM's
numbers at degrees 1 to 7: a misprint, it seems.)

Kept in results/rmm_table.csv, as the cells of a set of digits are whole; its pairs are kept one by one in the
user's cache folder under ``rmm_pairs``, so that a run that was broken off goes on where it was. To compute
anew, as where a machine has changed, delete them, and lines of the table. Pairs run side by side, ``n_jobs``
of them, of up to 4 GB. A part of the table: ``from benchmarks.rmm_table import run; run(data=["USPS"])``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from benchmarks.helpers.digit_machines import GRIDS, badness, pair_record
from benchmarks.helpers.digit_pairs import SCALINGS, Digits, Pair, images, is_at_hand
from benchmarks.helpers.kept import machine_facts
from benchmarks.helpers.rmm_page import KERNELS, as_printed
from polyopt.base.files import replacing, write_text
from polyopt.datasets.loading import cache_folder

KEPT = Path(__file__).parent / "results" / "rmm_table.csv"

_LARGE = (("MNIST, 2/3", False), ("MNIST, full", True))
DATA = {
    "MNIST, 2/3 and full": Digits("mnist", 0.0, _LARGE, 2 / 3, ("SVM", "RMM")),
    "optdigits": Digits("optdigits", 0.0, (("optdigits", True),)),
    "USPS": Digits("usps", -1.0, (("USPS", True),)),
    "MNIST, 1000": Digits("mnist", 0.0, (("MNIST, 1000", False),), 1000),
}
_SMOKE = Digits("digits", 0.0, (("digits", True),), classes=3)  # a third of it is the test part
_LOTS = 200


def run(smoke: bool = False, data: Sequence[str] = tuple(DATA), n_jobs: int = 2) -> pd.DataFrame:
    """Lines of ours and the paper's; the cells of those sets of digits that are missing are computed."""
    if smoke:
        scalings = {SCALINGS[0]: _SMOKE.methods}
        return as_printed(_cells(_SMOKE, _records(_SMOKE, scalings, ("1", "2"), 1, keep=False)))
    rows, absent = kept_cells(), []
    for name in data:
        digits = DATA[name]
        lines = [line for line, _ in digits.tables]
        if {row["data"] for row in rows} >= {*lines}:
            continue
        if not is_at_hand(digits.name):
            absent.append(name)
            continue
        scalings = {s: digits.methods if s == SCALINGS[0] else ("SVM",) for s in SCALINGS}
        records = _records(digits, scalings, KERNELS, n_jobs, keep=True)
        best = _best_scaling(records)
        if best != SCALINGS[0]:
            records |= _records(digits, {best: digits.methods}, KERNELS, n_jobs, keep=True)
        # Read anew: another run may have kept its cells meanwhile.
        rows = [row for row in kept_cells() if row["data"] not in lines] + _cells(digits, records)
        write_text(KEPT, pd.DataFrame(rows).to_csv(index=False, float_format="%.5g"))
    return as_printed(rows, absent)


def kept_cells() -> list[Any]:
    """The cells that were computed so far, as records."""
    return pd.read_csv(KEPT, dtype={"kernel": str}).to_dict("records") if KEPT.is_file() else []


def _records(
    digits: Digits, scalings: dict[str, Sequence[str]], kernels: Sequence[str], n_jobs: int, keep: bool
) -> dict[str, list[dict[str, Any]]]:
    """By scaling, the records of all pairs, with these methods: from the cache folder, or computed."""
    pairs = [*combinations(range(digits.classes), 2)]
    jobs = [(scaling, methods, pair) for scaling, methods in scalings.items() if methods for pair in pairs]
    found: dict[str, list[dict[str, Any]]] = {scaling: [] for scaling, _, _ in jobs}
    call, started = delayed(_kept_pair if keep else pair_record), time.perf_counter()
    workers = Parallel(n_jobs=n_jobs, return_as="generator")
    answers = workers(call(digits, scaling, methods, kernels, pair) for scaling, methods, pair in jobs)
    for number, (record, (scaling, _, pair)) in enumerate(zip(answers, jobs, strict=True), 1):
        found[scaling].append(record)
        if keep:
            left = (time.perf_counter() - started) * (len(jobs) / number - 1.0) / 60.0
            note = f"{digits.tables[0][0]}, {scaling}, {pair[0]} and {pair[1]}: {number} of {len(jobs)} jobs"
            print(
                f"  {note}, {record['seconds']:.0f} CPU s; {left:.0f} min left", file=sys.stderr, flush=True
            )
    return found


def _kept_pair(
    digits: Digits, scaling: str, methods: Sequence[str], kernels: Sequence[str], pair: Pair
) -> dict[str, Any]:
    """The record of a pair from the cache folder; computed and put there if it is not there."""
    words = [digits.tables[0][0], scaling, *methods, f"{pair[0]}{pair[1]}"]
    name = "-".join("".join(c for c in word if c.isalnum()) for word in words)
    file = cache_folder() / "rmm_pairs" / f"{name}.joblib"
    if file.is_file():
        record: dict[str, Any] = joblib.load(file)
        if record["grids"] == GRIDS:
            return record
    record = pair_record(digits, scaling, methods, kernels, pair)
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as stream:
        joblib.dump(record, stream, compress=3)
    return record


def _best_scaling(records: dict[str, list[dict[str, Any]]]) -> str:
    """The scaling with the fewest validation errors of the SVM, over all pairs and kernels."""
    sums = {
        scaling: sum(cell["errors"].min() for r in found for (_, m), cell in r["cells"].items() if m == "SVM")
        for scaling, found in records.items()
    }
    return min(sums, key=lambda scaling: sums[scaling])


def _cells(digits: Digits, records: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The cells of a set of digits, as records, from those of its pairs."""
    best, truth, rows = _best_scaling(records), images(digits, SCALINGS[0])[3], []
    for scaling, found in records.items():
        for name, kernel, method in found[0]["answers"]:
            parts = [record["answers"][name, kernel, method] for record in found]
            votes = _votes(digits, [part["answers"] for part in parts], len(truth))
            row = {"data": name, "scaling": scaling, "is chosen": scaling == best, "kernel": kernel}
            row |= {"method": method, **_counts(votes, truth)}
            row["end"] = max((part["end"] for part in parts), key=badness)
            row["largest violation"] = max(part["violation"] for part in parts)
            row |= {
                key: sum(part[key] for part in parts) for key in ("validation errors", "solves", "shared")
            }
            row["median setting"] = " ".join(
                f"{v:g}" for v in np.median([p["setting"] for p in parts], axis=0)
            )
            row |= {"CPU seconds": sum(part["seconds"] for part in parts), "machine": machine_facts()}
            rows.append(row)
    places = [line for line, _ in digits.tables]
    return sorted(rows, key=lambda row: (places.index(row["data"]), [*GRIDS].index(row["method"])))


def _votes(digits: Digits, answers: Sequence[Any], count: int) -> Any:
    """Votes of the pairs for each digit, shape (samples, digits)."""
    votes = np.zeros((count, digits.classes))
    for (first, second), packed in zip(combinations(range(digits.classes), 2), answers, strict=True):
        is_second = np.unpackbits(packed, count=count).astype(bool)
        votes[:, first] += ~is_second
        votes[:, second] += is_second
    return votes


def _counts(votes: Any, truth: Any) -> dict[str, float]:
    """Errors with ties going to the smaller digit, and by lot: mean and deviation over many lots."""
    tied = votes == votes.max(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    unsure = np.flatnonzero(tied.sum(axis=1) > 1)
    sure = np.setdiff1d(np.arange(len(truth)), unsure)
    wrong = int((votes[sure].argmax(axis=1) != truth[sure]).sum())
    draws = np.where(tied[unsure], rng.random((_LOTS, len(unsure), tied.shape[1])), -1.0).argmax(axis=2)
    errors = wrong + (draws != truth[unsure]).sum(axis=1)
    return {
        "errors": int((votes.argmax(axis=1) != truth).sum()),
        "by lot": float(errors.mean()),
        "spread of lots": float(errors.std(ddof=1)),
    }
