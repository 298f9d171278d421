"""Progress of a long run: counted steps of nested loops, records of a solver, and its iterates.

There are three channels, each with a sender in the loop and a receiver that is set around it:

* steps: a loop counts them by :func:`counted` or :func:`steps`; :func:`watching` receives them;
* records, numbers such as iteration, objective and bound: a solver sends them by :func:`tell`;
  :func:`watching` and the listener of :func:`records_to` receive them;
* points, the arrays of an iterate: a loop sends them by :func:`show`; the viewer of
  :func:`points_to` receives them.

A command watches steps and records and draws one line; an estimator with ``verbose`` prints the records. The
receivers belong to a thread. Without a receiver, as in a script, sending costs nothing.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass
class Step:
    """A loop whose steps are counted."""

    total: int  # number of steps, at most
    what: str  # name of a step, such as "pair"
    finished: int = 0  # number of finished steps
    text: str = ""  # a short description of the current step

    def name(self, text: str) -> None:
        """Describe the current step."""
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
    """State of a run: its nested loops, the outermost first, and the last record that a solver sent."""

    def __init__(self) -> None:
        self.loops: list[Step] = []
        self.record: Mapping[str, float] = {}
        self._largest_fraction = 0.0

    @property
    def fraction(self) -> float | None:
        """Fraction of the run that is finished, which never decreases; None if no loop counts steps."""
        fraction = 0.0
        loops = list(self.loops)  # a copy: the run may change the loops in another thread
        for loop in reversed(loops):  # the fraction of an inner loop is part of a step of the outer one
            fraction = min((loop.finished + fraction) / loop.total, 1.0)
        self._largest_fraction = max(self._largest_fraction, fraction)
        return self._largest_fraction if loops or self._largest_fraction else None

    @property
    def text(self) -> str:
        """The current steps and the last record, in a line."""
        parts = [str(loop) for loop in list(self.loops) if loop.total > 1 or loop.text]
        record = self.record
        unit = next((name for name in ("iteration", "epoch", "step", "nodes") if name in record), "")
        parts += [f"{unit} {record[unit]:,.0f}"] if unit else []
        gap = record.get("objective", float("nan")) - record.get("bound", float("nan"))
        is_known = gap == gap  # not nan
        parts += [f"gap {gap / max(abs(record['objective']), 1e-300):.0e}"] if is_known else []
        return ", ".join(parts)


Listener = Callable[[Mapping[str, float]], None]
Viewer = Callable[[Mapping[str, float], Mapping[str, Any]], None]


class _Receivers(NamedTuple):
    watch: Watch | None = None
    listener: Listener | None = None
    viewer: Viewer | None = None


_NONE = _Receivers()
_receivers = ContextVar("receivers", default=_NONE)


@contextmanager
def _receiving(**changes: Any) -> Iterator[None]:
    """Change some receivers of the loops within, in this thread."""
    token = _receivers.set(_receivers.get()._replace(**changes))
    try:
        yield
    finally:
        _receivers.reset(token)


@contextmanager
def watching() -> Iterator[Watch]:
    """Yield a :class:`Watch` of the loops within, in this thread."""
    watch = Watch()
    with _receiving(watch=watch):
        yield watch


@contextmanager
def steps(total: int, what: str) -> Iterator[Step]:
    """Register a loop of `total` steps, each called `what`; the loop calls :meth:`Step.done` after each."""
    step, watch = Step(total, what), _receivers.get().watch
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
    """Yield the items, at most `total`, and count each as a finished step: it is the result of that step."""
    with steps(total, what) as step:
        for item in items:
            step.done()
            yield item


def current_listener() -> Listener | None:
    """Return the listener to the records of this thread's loops, or None."""
    return _receivers.get().listener


def records_to(listener: Listener | None) -> AbstractContextManager[None]:
    """Send the records of all loops within to a function; None keeps the current listener."""
    return _receiving(listener=listener or current_listener())


def tell(record: Mapping[str, float]) -> None:
    """Send a record of a solver's history, such as ``{"iteration": 3.0, "objective": 1.5, "bound": 1.4}``."""
    watch, listener, _ = _receivers.get()
    if watch is not None:
        watch.record = record
    if listener is not None:
        listener(record)


def points_to(viewer: Viewer) -> AbstractContextManager[None]:
    """Send the points of the loops within to a function of a record and of the point's arrays.

    The loop changes the arrays later, so the function must copy those that it keeps.
    """
    return _receiving(viewer=viewer)


def show(record: Mapping[str, float], make_point: Callable[[], Mapping[str, Any]]) -> None:
    """Send a point of a loop; `make_point` returns its arrays, and is called only if there is a viewer."""
    viewer = _receivers.get().viewer
    if viewer is not None:
        viewer(record, make_point())


# -- lines on standard error -----------------------------------------------------------------------------

_UNITS = ("iteration", "round", "epoch", "pass")  # names of the iteration's number in a record
_PHRASES = {"rows": "{:,.0f} kernel rows", "best": "best {:.6g}", "elite_threshold": "elite up to {:.6g}",
            "nodes": "{:,.0f} nodes"}  # fmt: skip


def printer(title: str, interval: float = 1.0) -> Callable[[Mapping[str, float]], None]:
    """Return a listener that prints records after a title, at most one in `interval` seconds."""
    last = time.perf_counter()

    def print_record(record: Mapping[str, float]) -> None:
        nonlocal last
        if time.perf_counter() - last >= interval:
            last = time.perf_counter()
            print(f"{title}: {describe(record)}", file=sys.stderr, flush=True)

    return print_record


def describe(record: Mapping[str, float]) -> str:
    """Return a record of a history as a phrase."""
    parts = [f"{record['seconds']:.1f} s"]
    parts += [f"{unit} {record[unit]:.0f}" for unit in _UNITS if unit in record]
    parts += [f"violation {record['violation']:.2e}"] if "violation" in record else []
    if "objective" in record and "bound" not in record and record["objective"] == record["objective"]:
        parts += [f"objective {record['objective']:.6g}"]
    gap = record.get("objective", float("nan")) - record.get("bound", float("nan"))
    parts += [f"gap {gap:.2e}"] if gap == gap else []
    parts += [words.format(record[name]) for name, words in _PHRASES.items() if name in record]
    return ", ".join(parts)
