"""Progress of a long run: counted steps, one loop within the other, and the records of a solver.

A loop counts its steps by :func:`counted` or :func:`steps`, a solver passes its records to :func:`tell`. A
command watches both, to draw one line; an estimator with ``verbose`` prints the records alone, in whatever
worker. Loops that have a point between two steps :func:`show` it, to be played step by step. Without a
listener, as in a script, all of it costs nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Step:
    """A loop whose steps are counted."""

    total: int
    what: str  # the name of a step, such as "pair"
    finished: int = 0
    text: str = ""  # what is being done, in a few words

    def name(self, text: str) -> None:
        """Say what is being done now."""
        self.text = text

    def done(self, count: int = 1) -> None:
        """Count finished steps."""
        self.finished += count

    def __str__(self) -> str:
        if self.total == 1:
            return self.text
        number = f"{self.what} {min(self.finished + 1, self.total)} of {self.total}"
        return f"{number}: {self.text}" if self.text else number


class Watch:
    """State of a run: its loops, the outermost first, and the last record of a solver."""

    def __init__(self) -> None:
        self.loops: list[Step] = []
        self.record: Mapping[str, float] = {}
        self._most = 0.0

    @property
    def share(self) -> float | None:
        """Share of the run that is done, which never falls; None if nothing is counted."""
        share = 0.0
        loops = list(self.loops)
        for loop in reversed(loops):
            share = min((loop.finished + share) / loop.total, 1.0)
        self._most = max(self._most, share)
        return self._most if loops or self._most else None

    @property
    def text(self) -> str:
        """The present steps, in a line."""
        parts = [str(loop) for loop in list(self.loops) if loop.total > 1 or loop.text]
        record = self.record
        unit = next((name for name in ("iteration", "epoch", "step", "nodes") if name in record), "")
        parts += [f"{unit} {record[unit]:,.0f}"] if unit else []
        gap = record.get("objective", float("nan")) - record.get("bound", float("nan"))
        parts += [f"gap {gap / max(abs(record['objective']), 1e-300):.0e}"] if gap == gap else []
        return ", ".join(parts)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch what runs inside, in this thread."""
    watch = Watch()
    token = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(token)


@contextmanager
def steps(total: int, what: str) -> Iterator[Step]:
    """A loop of `total` steps, each called `what`, which says itself when one is done."""
    step, watch = Step(total, what), _watch.get()
    if watch is None:
        yield step
        return
    if total < 1:
        raise ValueError(f"total must be at least 1, not {total}")
    depth = len(watch.loops)
    watch.loops.append(step)
    try:
        yield step
    finally:
        del watch.loops[depth:]
        watch.record = {}


def counted(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield the results that a loop gives, at most `total`, each counted as it comes."""
    with steps(total, what) as step:
        for item in items:
            step.done()
            yield item


Listener = Callable[[Mapping[str, float]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def current_listener() -> Listener | None:
    """Return the listener to the records of this thread's loops, beside a watch."""
    return _listener.get()


@contextmanager
def heard_by(hearing: Listener | None) -> Iterator[None]:
    """Pass the records of all loops within to a function; None leaves the present one."""
    token = _listener.set(hearing or _listener.get())
    try:
        yield
    finally:
        _listener.reset(token)


def tell(record: Mapping[str, float]) -> None:
    """Tell a record of a solver's history, such as ``{"iteration": 3.0, "objective": 1.5, "bound": 1.4}``."""
    watch, hearing = _watch.get(), _listener.get()
    if watch is not None:
        watch.record = record
    if hearing is not None:
        hearing(record)


def listener() -> Listener | None:
    """Return :func:`tell`, or None if there is neither a watch nor a listener."""
    return None if _watch.get() is None and _listener.get() is None else tell


Seer = Callable[[Mapping[str, float], Mapping[str, Any]], None]
_seer: ContextVar[Seer | None] = ContextVar("seer", default=None)


@contextmanager
def seen_by(seeing: Seer) -> Iterator[None]:
    """Pass the points of loops within this thread to a function of a record and of the point's arrays.

    The arrays change after it returns, so it copies those that it keeps.
    """
    token = _seer.set(seeing)
    try:
        yield
    finally:
        _seer.reset(token)


def show(record: Mapping[str, float], point: Callable[[], Mapping[str, Any]]) -> None:
    """Pass on a point of a loop; `point`, which makes it, is called only if a function sees it."""
    seeing = _seer.get()
    if seeing is not None:
        seeing(record, point())


# -- lines on standard error -----------------------------------------------------------------------------

_UNITS = ("iteration", "round", "epoch", "pass")


def printer(title: str, every: float = 1.0) -> Callable[[Mapping[str, float]], None]:
    """Return a listener that prints records after a title, once in `every` seconds at most."""
    last = time.perf_counter()

    def show(record: Mapping[str, float]) -> None:
        nonlocal last
        if time.perf_counter() - last >= every:
            last = time.perf_counter()
            print(f"{title}: {describe(record)}", file=sys.stderr, flush=True)

    return show


def describe(record: Mapping[str, float]) -> str:
    """Return one record of a history as a phrase."""
    parts = [f"{record['seconds']:.1f} s"]
    parts += [f"{unit} {record[unit]:.0f}" for unit in _UNITS if unit in record]
    parts += [f"violation {record['violation']:.2e}"] if "violation" in record else []
    if "objective" in record and "bound" not in record and record["objective"] == record["objective"]:
        parts += [f"objective {record['objective']:.6g}"]
    gap = record.get("objective", float("nan")) - record.get("bound", float("nan"))
    parts += [f"gap {gap:.2e}"] if gap == gap else []
    parts += [f"{record['rows']:,.0f} kernel rows"] if "rows" in record else []
    parts += [f"best {record['best']:.6g}"] if "best" in record else []
    parts += [f"elite up to {record['elite_threshold']:.6g}"] if "elite_threshold" in record else []
    parts += [f"{record['nodes']:,.0f} nodes"] if "nodes" in record else []
    return ", ".join(parts)
