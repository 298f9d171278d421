"""The engine: messages in, messages out, and one solver at a time beside them."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from formulations.language.clock import Clock
from polyopt.base.progress import watching
from polyopt.base.text import plain
from polyopt.lab import answers
from polyopt.lab.fitting import Fitted

MAX_BYTES = 2_097_152
"""Largest message from a client, in bytes."""

_MAX_WAITING = 8  # jobs
_SUPERSEDED = "A newer state is solved in its place."
_PROGRESS_SECONDS = 0.25  # between two messages on the progress of a job


@dataclass(frozen=True)
class Job:
    """A request of a client that has to be computed."""

    number: int
    op: str
    message: Mapping[str, Any]
    run: Clock = field(default_factory=Clock)

    @property
    def who(self) -> object:
        """Sender of the request, among the views of one engine."""
        return self.message.get("who")


class Engine:
    """Answers to one client's messages, by calls of `send` from any thread, one after the other."""

    def __init__(self, send: Callable[[dict[str, Any]], None], begin: Mapping[str, Any] | None = None):
        self._send, self._begin = send, begin
        self._last: tuple[int, Fitted] | None = None
        self._change = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        self._is_closed = False
        self._worker: threading.Thread | None = None

    # -- messages -----------------------------------------------------------------------------

    def receive(self, message: object) -> None:
        """Answer a message, JSON if it is a text, now or once it is computed; raise nothing."""
        number: int | None = None
        try:
            request = self._parsed(message)
            number = request.get("id") if type(request.get("id")) is int else None
            if number is None:
                raise ValueError("a message needs a whole number as its id")
            self._dispatch(number, request)
        except (ValueError, TypeError, RecursionError) as error:
            self._fail(number, error)

    @staticmethod
    def _parsed(message: object) -> Mapping[str, Any]:
        if isinstance(message, str | bytes):
            if len(message) > MAX_BYTES:
                raise ValueError(f"a message may have {MAX_BYTES} bytes at most, not {len(message)}")
            try:
                message = json.loads(message, parse_constant=_refuse_constant)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"the message is not JSON: {error}") from None
            except RecursionError:
                raise ValueError("the message is nested too deep") from None
        if not isinstance(message, Mapping):
            raise ValueError("a message must be an object with id and op")
        return message

    def _dispatch(self, number: int, request: Mapping[str, Any]) -> None:
        op = request.get("op")
        if op == "hello":
            self._send(plain({"id": number, **answers.hello(self._begin)}))
        elif op == "stop":
            self._stop(request.get("who"))
            self._send({"id": number, "kind": "stopped", "sentence": "What ran is stopped."})
        elif op == "explain":
            self._send(plain({"id": number, **answers.explain(request, self._last)}))
        elif isinstance(op, str) and op in answers.COMPUTED:
            self._enqueue(Job(number, op, request))
        else:
            known = ", ".join(("hello", "stop", "explain", *answers.COMPUTED))
            raise ValueError(f"op must be one of {known}, not {str(op)[:40]!r}")

    # -- jobs ---------------------------------------------------------------------------------

    def _enqueue(self, job: Job) -> None:
        with self._change:
            if self._is_closed:
                return
            dropped = [old for old in self._waiting if old.op == job.op == "solve" and old.who == job.who]
            for old in dropped:
                self._waiting.remove(old)
            if len(self._waiting) >= _MAX_WAITING:
                raise ValueError(f"{_MAX_WAITING} requests wait already: stop what runs, or wait")
            current, replaces = self._current, job.message.get("replace") is True
            if replaces and current is not None and current.op == "solve" and current.who == job.who:
                current.run.stop()
            self._waiting.append(job)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="polyopt lab", daemon=True)
                self._worker.start()
            self._change.notify_all()
        for old in dropped:
            self._send({"id": old.number, "kind": "stopped", "superseded": True, "sentence": _SUPERSEDED})

    def _stop(self, who: object) -> None:
        with self._change:
            dropped = [old for old in self._waiting if old.who == who]
            self._waiting = deque(old for old in self._waiting if old.who != who)
            if self._current is not None and self._current.who == who:
                self._current.run.stop()
        for old in dropped:
            self._send({"id": old.number, "kind": "stopped", "sentence": "It was stopped before it began."})

    def _work(self) -> None:
        while True:
            with self._change:
                while not self._waiting and not self._is_closed:
                    self._change.wait()
                if self._is_closed:
                    return
                job = self._current = self._waiting.popleft()
            try:
                self._compute(job)
            finally:
                with self._change:
                    self._current = None
                    self._change.notify_all()

    def _compute(self, job: Job) -> None:
        try:
            with self._telling(job.number):
                last = None if self._last is None else self._last[1]
                run = Clock(30.0, outer=job.run)  # the seconds begin with the work
                context = answers.Context(job.message, run, last)
                answer = plain(answers.COMPUTED[job.op](context))
            if context.drawn is not None:
                self._last = (job.number, context.drawn)
            self._send({"id": job.number, **answer})
        except KeyboardInterrupt:
            sentence = "It was stopped before there was a point to show."
            self._send({"id": job.number, "kind": "stopped", "sentence": sentence})
        except Exception as error:  # of any kind: the engine goes on
            self._fail(job.number, error)

    @contextmanager
    def _telling(self, number: int) -> Iterator[None]:
        """Send the progress of the job within, with the last record of its solver."""
        start, is_over = time.perf_counter(), threading.Event()

        def tell() -> None:
            while not is_over.wait(_PROGRESS_SECONDS):
                record = watch.record
                progress = {"objective": record.get("objective"), "bound": record.get("bound")}
                progress |= {"seconds": time.perf_counter() - start, "share": watch.fraction}
                self._send(plain({"id": number, "kind": "progress", "text": watch.text, **progress}))

        with watching() as watch:
            clock = threading.Thread(target=tell, name="polyopt lab, clock", daemon=True)
            clock.start()
            try:
                yield
            finally:
                is_over.set()
                clock.join()  # no progress after the answer

    def _fail(self, number: int | None, error: BaseException) -> None:
        self._send({"id": number, "kind": "error", "sentence": sentence_of(error)})

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until no request is left; return False after a timeout."""
        with self._change:
            return self._change.wait_for(lambda: not self._waiting and self._current is None, seconds)

    def close(self) -> None:
        """Stop the current job, and answer no further message."""
        with self._change:
            self._is_closed = True
            self._waiting.clear()
            if self._current is not None:
                self._current.run.stop()
            self._change.notify_all()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"the message has the number {name}; only finite ones are taken")


def sentence_of(error: BaseException) -> str:
    """Return an error as a sentence: the text of a ValueError or ImportError, else with its type."""
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | ImportError) and text:
        return text
    return f"The lab could not compute this: {type(error).__name__}{': ' + text if text else ''}"
