"""How far a job is, told to a client on the way."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from polyopt.lab.plain import plain

if TYPE_CHECKING:
    from polyopt.watch import Watch

__all__ = ["Teller"]

_QUIET = 0.3  # seconds without a word
_EVERY = 0.1  # seconds between two words, at least
_SILENT = 0.5  # seconds after which it is told that the job goes on, whether a solver has a record or not
_COMPILES = "compiles what this solver needs, the first time alone; nothing stops that"


@cache
def _compiler() -> Any:
    """What knows how many functions numba compiles at this moment, in any thread."""
    from numba.core import event

    class Counter(event.Listener):
        at_work = 0

        def on_start(self, _event: object) -> None:
            self.at_work += 1

        def on_end(self, _event: object) -> None:
            self.at_work = max(self.at_work - 1, 0)  # it may have begun before anybody counted

    counter = Counter()
    event.register("numba:compile", counter)
    return counter


def _compiles() -> bool:
    return "numba" in sys.modules and _compiler().at_work > 0


class Teller:
    """Tells a client how far a job is, within a ``with`` statement.

    number: the request that is answered.
    send: takes a message to the client.
    watch: knows how far the job is.
    """

    def __init__(self, number: int, send: Callable[[dict[str, Any]], None], watch: Watch):
        self._number, self._send, self._watch = number, send, watch
        self._start = time.perf_counter()
        self._last = self._start + _QUIET - _EVERY
        self._one = threading.Lock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="polyopt lab, clock", daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._clock.join()  # nothing is told after the answer

    def hear(self, record: Mapping[str, float]) -> None:
        """Tell a record of a solver, if the last word is not too near."""
        if time.perf_counter() >= self._last + _EVERY:
            self.tell(**{name: record[name] for name in ("objective", "bound") if name in record})

    def tell(self, **values: object) -> None:
        """Tell it now.

        **values: what the message has besides.
        """
        with self._one:
            now = self._last = time.perf_counter()
            told: dict[str, Any] = {"objective": None, "bound": None, "seconds": now - self._start}
            text = _COMPILES if _compiles() else self._watch.text
            told |= {"share": self._watch.share, "text": text, **values}
            self._send(plain({"id": self._number, "kind": "progress", **told}))

    def _tick(self) -> None:
        while not self._over.wait(_SILENT):
            if time.perf_counter() >= self._last + _SILENT:
                self.tell()
