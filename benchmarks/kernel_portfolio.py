"""Kernel SVM and RMM on 34 data sets: polyopt, scikit-learn-intelex and LIBSVM, one thread and all.

Real sets in the folder that POLYOPT_DATA names, and seeded ones; 2 to 2,000 columns, 2,000 to 20,000 samples,
sparse and dense, separable to 30 % of overlap, well and badly scaled. The SVM at three settings of C and
gamma, gamma in units of 1/(m var X); on some sets also polynomial kernels, and the RMM with its bound a share
of the way from 1 to the SVM's largest output. No peer solves the RMM: it is raced with our own SVM. All at
tolerance 1e-3 and with a cache of 2 GB, on the same samples in single precision, in which
scikit-learn-intelex computes; LIBSVM (scikit-learn's SVC) up to 6,000 samples.

Ratios are polyopt's seconds by the peer's: of the processor on one thread, by the clock on all; medians of
three interleaved rounds. A fit that takes longer than the limit, 60 such seconds, is not repeated, and counts
with its seconds by then. Our own time limit goes by the clock: on one thread, where others may take the
processor, it is three times that. Violations are recomputed in double precision from the coefficients. "To
1e-8" is by our own seconds to 1e-3, up to 5,000 samples; predictions are of up to 10,000 rows. The picture is
the performance profile of Dolan and Moré (2002): for each factor, the share of problems that a solver ends
within that factor of the fastest one's seconds.

Every cell is kept in results/kernel_portfolio.csv as it ends, and not computed again: delete the file, or
some lines of it, to do so. All of it takes hours. For a part:
``from benchmarks.kernel_portfolio import run; run(data=["banana"])``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.kept import machine_facts
from benchmarks.helpers.portfolio_data import SETS, is_at_hand, samples
from benchmarks.helpers.portfolio_worker import LIBSVM, OURS, OVER, PEER, TIGHT, Cell, Worker, processors
from polyopt.base.files import replacing, write_text

FOLDER = Path(__file__).parent / "results"
KEPT, PICTURE = FOLDER / "kernel_portfolio.csv", FOLDER / "kernel_portfolio.png"
_RBF = ((1.0, 1.0), (10.0, 2.0), (100.0, 1.0))  # C, and gamma in units of 1/(m var X)
_POLY = ((2, 1.0, 1.0), (3, 100.0, 1.0))  # degree, C and gamma
_SHARES = (1 / 2, 1 / 4, 1 / 10, 1 / 20)
_LIBSVM_ROWS, _TIGHT_ROWS = 6000, 5000
_OWN_SVM = "polyopt's SVM"
_PREDICT = "predict "
_KEY = ("threads", *Cell._fields)
_COLUMNS = (
    "threads", "data", "task", "peer", "polyopt, s", "peer, s", "ratio", "violation", "peer's violation",
    "to 1e-8, times", "predicting, ratio", "past limit, s",
)  # fmt: skip


def run(
    smoke: bool = False,
    data: Sequence[str] = tuple(SETS),
    threads: Sequence[int] | None = None,
    rounds: int = 3,
    limit: float = 60.0,
    kept: Path = KEPT,
) -> pd.DataFrame:
    """Means and worst cells first, then all cells; those of the sets named that are missing are computed."""
    if smoke:
        return _smoke()
    counts = sorted({1, processors()}) if threads is None else threads
    rows: list[Any] = pd.read_csv(kept).to_dict("records") if kept.is_file() else []
    done = {tuple(row[name] for name in _KEY) for row in rows}
    for count in counts:
        worker = Worker(count, limit)
        for name in filter(is_at_hand, data):
            for cell in _cells(name):
                if (count, *cell) not in done:
                    rows.append(_cell(worker, cell, rounds))
                    write_text(kept, pd.DataFrame(rows).to_csv(index=False, float_format="%.5g"))
                    print(f"  {_sentence(rows[-1])}", flush=True)
        worker.close()
    if rows and kept == KEPT:
        _draw(pd.DataFrame(rows))
    return as_printed(rows, [name for name in data if not is_at_hand(name)])


def _smoke() -> pd.DataFrame:
    """Two small sets and LIBSVM, on one thread; nothing is kept."""
    worker = Worker(1, 20.0, limit_rows=400)
    cells = [Cell("moons", 0, 10.0, 2.0, share) for share in (0.0, 0.5)] + [Cell("one-hot", 2, 1.0, 1.0, 0.0)]
    try:
        return as_printed([_cell(worker, cell, 1, intelex=False) for cell in cells])
    finally:
        worker.close()


def _cells(name: str) -> list[Cell]:
    """The problems of one data set."""
    cells = [Cell(name, 0, C, gamma, 0.0) for C, gamma in _RBF]
    cells += [Cell(name, *setting, 0.0) for setting in _POLY if SETS[name].has_poly]
    return cells + [Cell(name, 0, *_RBF[1], share) for share in _SHARES if SETS[name].has_rmm]


# -- one cell --------------------------------------------------------------------------------------------


@lru_cache
def _shape(name: str) -> tuple[int, int]:
    return samples(name)[0].shape


def _cell(worker: Worker, cell: Cell, rounds: int, intelex: bool = True) -> dict[str, Any]:
    """Race one cell: what is kept of it, with the names of the entrants in front."""
    n, m = _shape(cell.data)
    n = min(n, worker.limit_rows or n)
    if cell.share:
        entrants = [_OWN_SVM, OURS]
    else:
        entrants = [OURS] + [PEER] * (intelex and find_spec("sklearnex") is not None)
        entrants += [LIBSVM] * (n <= _LIBSVM_ROWS) + [TIGHT] * (n <= _TIGHT_ROWS and worker.threads == 1)
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in entrants}
    B = np.inf
    for turn in range(rounds):
        for who in entrants:
            if turn and (not runs[who] or runs[who][-1]["status"] == OVER):
                continue
            if cell.share and who == OURS and not turn:
                first = runs[_OWN_SVM][0]
                theta = first.get("largest output", np.nan)
                if first["status"] == OVER or not theta > 1.0:
                    continue  # there is no bound to take
                B = 1.0 + (theta - 1.0) * cell.share
            found = worker.fit(OURS if who == _OWN_SVM else who, cell, B if who == OURS else np.inf)
            runs[who].append(found)
    row: dict[str, Any] = {"threads": worker.threads, **cell._asdict(), "n": n, "m": m, "limit": worker.limit}
    for who, several in runs.items():
        for fact in dict.fromkeys(fact for each in several for fact in each):
            values = [each[fact] for each in several if fact in each]
            row[f"{who}: {fact}"] = values[-1] if fact == "status" else float(np.median(values))
    ours = [each["clock"] for who in (OURS, TIGHT, _OWN_SVM) for each in runs.get(who, [])]
    row["past limit"] = max(max(ours) - worker.clock_limit, 0.0)
    return row | {"rounds": rounds, "machine": machine_facts()}


def _was_run(row: Any, who: str) -> bool:
    return isinstance(row.get(f"{who}: status"), str)


def _is_over(row: Any, who: str) -> bool:
    return row.get(f"{who}: status") == OVER


def _took(row: Any, who: str, what: str = "") -> float:
    """Seconds of the processor on one thread, by the clock on several; NaN where there is no answer."""
    kind = "clock" if row["threads"] > 1 else "CPU"
    status = str(row.get(f"{who}: status", ""))
    return np.nan if ":" in status or " " in status else float(row.get(f"{who}: {what}{kind}", np.nan))


def _ratio(row: Any, who: str, by: str, what: str = "") -> tuple[float, str]:
    """Seconds of one by those of the other; and a sign where one was over the limit, and it is a bound."""
    if what:
        return _took(row, who, what) / _took(row, by, what), ""
    late = _is_over(row, who), _is_over(row, by)
    ratio = np.nan if all(late) else _took(row, who) / _took(row, by)
    return ratio, {(True, False): "> ", (False, True): "< "}.get(late, "")


# -- what is shown ---------------------------------------------------------------------------------------


def as_printed(rows: list[Any], absent: Sequence[str] = ()) -> pd.DataFrame:
    """Means and worst ratios, then the cells, then the sets that are not at hand; all as text."""
    cells = [_line(row, by) for row in rows for by in (PEER, LIBSVM, _OWN_SVM) if _was_run(row, by)]
    lines = [*_summary(rows), *cells, *({"data": name, "task": "not at hand"} for name in absent)]
    return pd.DataFrame(lines, columns=list(_COLUMNS)).fillna("")


def _line(row: Any, by: str) -> dict[str, str]:
    ratio, tight = _ratio(row, OURS, by), _ratio(row, TIGHT, OURS)
    predicting = _ratio(row, OURS, by, _PREDICT)[0] if by != _OWN_SVM else np.nan
    values = (
        str(row["threads"]), f"{row['data']} ({row['n']}, {row['m']})", _task(row), by,
        _seconds(row, OURS), _seconds(row, by), _signed(ratio) or "neither ended",
        _number(row.get(f"{OURS}: violation")), _number(row.get(f"{by}: violation")),
        _signed(tight), _number(predicting), _number(row["past limit"] or np.nan),
    )  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def _task(row: Any) -> str:
    kernel = f"degree {row['degree']}" if row["degree"] else "RBF"
    machine = f"RMM at 1/{1 / row['share']:.0f}" if row["share"] else "SVM"
    return f"{machine}, {kernel}, C={row['C']:g}, gamma {row['gamma']:g}"


def _sentence(row: Any) -> str:
    entrants = (who for who in (OURS, TIGHT, PEER, LIBSVM, _OWN_SVM) if _was_run(row, who))
    ends = ", ".join(f"{who} {_seconds(row, who)}" for who in entrants)
    return f"{row['threads']} thread{'s' * (row['threads'] > 1)}, {row['data']}, {_task(row)}: {ends}"


def _seconds(row: Any, who: str) -> str:
    """Seconds as text, and the status where it is another than optimal."""
    if _is_over(row, who):
        return f"> {_took(row, who):.3g}"
    status = str(row.get(f"{who}: status", "")) if _was_run(row, who) else ""
    taken = _number(_took(row, who), 3)
    return taken if status in ("SOLVED", "ended", "") else f"{taken} ({status.lower()})".strip()


def _number(value: Any, digits: int = 2) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:.{digits}g}"


def _signed(ratio: tuple[float, str]) -> str:
    return f"{ratio[1]}{ratio[0]:.3g}" if np.isfinite(ratio[0]) else ""


def _summary(rows: list[Any]) -> Iterator[dict[str, str]]:
    """Geometric mean and worst ratio of every race, the largest violations, the seconds past the limit."""
    for count in sorted({row["threads"] for row in rows}):
        some = [row for row in rows if row["threads"] == count]
        svm = [row for row in some if not row["share"]]
        for by in (PEER, LIBSVM):
            yield from _race(count, "SVM", svm, OURS, by)
        for share in sorted({row["share"] for row in some if row["share"]}, reverse=True):
            part = [row for row in some if row["share"] == share]
            yield from _race(count, f"RMM at 1/{1 / share:.0f}", part, OURS, _OWN_SVM)
        yield from _race(count, "SVM to 1e-8, by itself to 1e-3", svm, TIGHT, OURS)
        for by in (PEER, LIBSVM):
            yield from _race(count, "predicting", svm, OURS, by, _PREDICT)


def _race(
    count: int, title: str, part: list[Any], who: str, by: str, what: str = ""
) -> Iterator[dict[str, str]]:
    """Two lines: the geometric mean, with what goes for all cells, and the worst cell."""
    part = [row for row in part if _was_run(row, who) and _was_run(row, by)]
    ratios = [(*_ratio(row, who, by, what), row) for row in part]
    ratios = [found for found in ratios if np.isfinite(found[0])]
    if not ratios:
        return
    late = {name: sum(_is_over(row, name) for row in part) for name in (who, by)}
    over = "".join(f"; {name} over the limit in {many}" for name, many in late.items() if many and not what)
    mean = float(np.exp(np.mean([np.log(ratio) for ratio, _, _ in ratios])))
    shared = {"threads": str(count), "peer": by}
    line = {"data": "geometric mean", "task": f"{title}: {len(ratios)} cells{over}", "ratio": f"{mean:.3g}"}
    if not what:
        for column, name in (("violation", who), ("peer's violation", by)):
            ended = [row.get(f"{name}: violation", np.nan) for row in part if not _is_over(row, name)]
            line[column] = _number(max((each for each in ended if np.isfinite(each)), default=np.nan))
        line["past limit, s"] = _number(max(row["past limit"] for row in part))
    yield shared | line
    worst, sign, row = max(ratios, key=lambda found: found[0])
    ends = {} if what else {"polyopt, s": _seconds(row, who), "peer, s": _seconds(row, by)}
    yield shared | {
        "data": f"worst: {row['data']}", "task": _task(row), "ratio": _signed((worst, sign)), **ends
    }  # fmt: skip


# -- the picture -----------------------------------------------------------------------------------------


def profiles(table: pd.DataFrame, solvers: Sequence[str]) -> dict[str, np.ndarray]:
    """Of each solver its seconds by the fastest's, ascending; infinite where it did not end in time.

    Only problems at which all of them were tried count.
    """
    tried = [row for row in table.to_dict("records") if all(_was_run(row, who) for who in solvers)]
    times = np.array(
        [[np.inf if _is_over(row, who) else _took(row, who) for who in solvers] for row in tried]
    )
    times = np.where(np.isnan(times), np.inf, times).reshape(-1, len(solvers))
    best = times.min(axis=1, keepdims=True)
    ratios = np.divide(times, best, out=np.full(times.shape, np.inf), where=np.isfinite(best))
    return {who: np.sort(ratios[:, place]) for place, who in enumerate(solvers)}


def _draw(table: pd.DataFrame, path: Path = PICTURE) -> None:
    """A panel for each number of threads, and one with LIBSVM on the problems that it is given."""
    from polyopt.plots.figure import BLUE, GREEN, ORANGE, new_figure, styled

    table = table[table["share"] == 0]
    panels = [(count, (OURS, PEER)) for count in sorted(table["threads"].unique())]
    panels.insert(1, (panels[0][0], (OURS, PEER, LIBSVM)))
    drawn = [(count, profiles(table[table["threads"] == count], solvers)) for count, solvers in panels]
    drawn = [(count, found) for count, found in drawn if len(found[OURS])]
    if not drawn:
        return
    colours = dict(zip((OURS, PEER, LIBSVM), (BLUE, ORANGE, GREEN), strict=True))
    with styled():
        figure = new_figure(0.8 + 3.2 * len(drawn), 3.6)
        for axes, (count, found) in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
            finite = [ratios[np.isfinite(ratios)].max(initial=1.0) for ratios in found.values()]
            end = 1.1 * max(2.0, *finite)
            for who, ratios in found.items():
                ended = ratios[np.isfinite(ratios)]
                shares = np.arange(1, len(ended) + 1) / len(ratios)
                x, height = [1.0, *ended, end], [0.0, *shares, shares[-1] if len(shares) else 0.0]
                axes.step(x, height, where="post", color=colours[who], label=who)
            axes.set_xscale("log", base=2)
            title = f"{count} thread{'s' if count > 1 else ''}, {len(found[OURS])} problems"
            axes.set(title=title, xlabel="times the fastest's seconds", ylim=(0.0, 1.02), xlim=(1.0, end))
            axes.legend(frameon=False, loc="lower right")
        figure.axes[0].set_ylabel("share of problems ended")
        FOLDER.mkdir(exist_ok=True)
        with replacing(path) as stream:
            figure.savefig(stream, dpi=110)
