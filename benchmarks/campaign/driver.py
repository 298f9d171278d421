"""All problems of a campaign, side by side, counted as they come and taken up where they were left."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from benchmarks.campaign.draws import RANGES
from benchmarks.campaign.extended import need_extended
from benchmarks.campaign.fit_hinge import run_hinge
from benchmarks.campaign.fit_polytope import run_polytope
from benchmarks.campaign.fit_sparse import run_sparse
from benchmarks.campaign.trial import OUTCOMES, Trial
from polyopt.base.files import write_bytes

__all__ = ["FAMILIES", "counted", "replay", "run"]

FAMILIES: dict[str, Callable[[np.random.Generator, bool], list[Trial]]] = {
    "hinge": run_hinge,
    "sparse": run_sparse,
    "polytope": run_polytope,
}
PROBLEMS = {"ordinary": 10_000, "extreme": 3_000}
RESULTS = Path(__file__).parents[1] / "results"
COUNTS, FAULTS = RESULTS / "campaign.csv", RESULTS / "campaign_faults.csv"
_CHUNK = 50  # problems whose counts are kept together
_BAD = ("false", "traceback", "overrun")


def replay(family: str, span: str, seed: int) -> list[Trial]:
    """One problem: what came of each machine that was tried on it."""
    place = [*FAMILIES].index(family)
    for _ in range(2):  # the first one of a process imports its solvers; only what is slow twice is slow
        rng = np.random.default_rng([place, RANGES.index(span), seed])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trials = FAMILIES[family](rng, span == "extreme")
        if all("overrun" not in (t.outcome, *t.kinds) for t in trials):
            break
    return trials


def run(smoke: bool = False) -> pd.DataFrame:
    """The table of counts; what is kept already is not computed again."""
    need_extended()
    if smoke:
        return counted(_rows(*_chunk(f, span, 0, 3)) for f in FAMILIES for span in RANGES)
    known = pd.read_csv(COUNTS) if COUNTS.is_file() else pd.DataFrame(columns=["family", "range", "first"])
    done = set(zip(known["family"], known["range"], known["first"], strict=True))
    tasks = [
        (family, span, first)
        for first in range(0, max(PROBLEMS.values()), _CHUNK)
        for span in RANGES
        for family in FAMILIES
        if first < PROBLEMS[span] and (family, span, first) not in done
    ]
    chunks = Parallel(n_jobs=-1, return_as="generator_unordered", batch_size=1)(
        delayed(_chunk)(family, span, first, _CHUNK) for family, span, first in tasks
    )
    for number, (key, trials) in enumerate(chunks, 1):
        rows = _rows(key, trials)
        _append(COUNTS, rows.to_csv(header=not COUNTS.is_file(), index=False))
        _append_faults(key, trials)
        if number % 20 == 0:
            print(f"  {number} of {len(tasks)} parts", flush=True)
    return counted([pd.read_csv(COUNTS)])


def counted(parts: Any) -> pd.DataFrame:
    """The table: a row per family, range and machine, and one for all machines of a family."""
    table = pd.concat(list(parts))
    columns = ["tried", *OUTCOMES]
    by_machine = table.groupby(["family", "range", "machine"], sort=False)[columns].sum().reset_index()
    total = table.groupby(["family", "range"], sort=False)[columns].sum().reset_index().assign(machine="all")
    joined = pd.concat([by_machine, total])
    order = [
        [*FAMILIES].index(f) * 2 + RANGES.index(r)
        for f, r in zip(joined["family"], joined["range"], strict=True)
    ]
    return joined.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def _chunk(
    family: str, span: str, first: int, count: int
) -> tuple[tuple[str, str, int], list[tuple[int, Trial]]]:
    """The trials of `count` problems, each with its problem's number."""
    found = []
    for seed in range(first, first + count):
        found += [(seed, each) for each in replay(family, span, seed)]
    return (family, span, first), found


def _rows(key: tuple[str, str, int], trials: list[tuple[int, Trial]]) -> pd.DataFrame:
    """Counts of a part, a row per machine."""
    counts: dict[str, Counter[str]] = {}
    for _, each in trials:
        counts.setdefault(each.machine.split(",")[0], Counter())[each.outcome] += 1
    family, span, first = key
    return pd.DataFrame(
        [
            {"family": family, "range": span, "first": first, "machine": machine, "tried": sum(c.values())}
            | {word: c[word] for word in OUTCOMES}
            for machine, c in counts.items()
        ]
    )


def _append(path: Path, text: str) -> None:
    """Add a text to a file, which is replaced as a whole: no reader sees half of the text."""
    before = path.read_bytes() if path.is_file() else b""
    write_bytes(path, before + text.encode())


def _append_faults(key: tuple[str, str, int], trials: list[tuple[int, Trial]]) -> None:
    rows = [
        {
            "family": key[0],
            "range": key[1],
            "seed": seed,
            "machine": each.machine,
            "outcome": each.outcome,
            "problem": each.words,
        }
        | {"kind": kind, "detail": detail}
        for seed, each in trials
        if each.outcome in _BAD
        for kind, detail in zip(each.kinds, each.details, strict=True)
    ]
    if rows:
        _append(FAULTS, pd.DataFrame(rows).to_csv(header=not FAULTS.is_file(), index=False))
