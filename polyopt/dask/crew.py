"""Blocks on Dask's workers: asked all at once, made anew where a worker was lost.

Every block has a home, a worker that keeps what the solver knows of it in its own memory. A task brings it
the part of the log that it has not been through. Where a worker is gone, its blocks get other homes and the
whole log, and are as they were. Answers are put in the order of the blocks: nothing depends on the workers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from polyopt.dask.on_worker import Missing, answers, forget, looked
from polyopt.dask.scheduler import LOOK, is_loss, retry, workers_of
from polyopt.dask.walks import walked
from polyopt.large.held import Seeing, Walk
from polyopt.large.sources import described
from polyopt.solvers.interior_point.crew import Change, Crew

if TYPE_CHECKING:
    from distributed import Client, Future

    from polyopt.large.marks import Mark
    from polyopt.large.parts import Looked, Maker

__all__ = ["Team", "Workers"]

_NEWS = 10.0  # seconds between two looks at the workers in any case
_FAILURES = 100  # of tasks, by workers that were lost, that a fit bears


class Team(Seeing):
    """The workers of a client, with the parts that they hold.

    client: the client.
    parts: what each block is read from: futures of its arrays, or a source.
    names: names of the features of futures.
    """

    def __init__(self, client: Client, parts: Sequence[Any], names: Sequence[str] | None = None):
        super().__init__(len(parts))
        self._names = names
        self._client, self.parts = client, list(parts)
        self._crews: list[Workers] = []  # of all hands on these blocks
        self._has_walked = False

    def _look(self) -> list[Looked]:
        walks = []
        for number, part in enumerate(self.parts):
            place, names = described(part, number)
            walks.append(Walk(None, [(number, (place, names or self._names))]))
        return self.walk(looked, walks) or []

    def crew(self, recipe: Maker) -> Crew:
        """The blocks of this recipe that are not empty."""
        crew = Workers(self._client, self.parts, recipe, self._marks)
        self._crews[:] = [*(each for each in self._crews if not each.is_closed), crew]
        return crew

    def walk(
        self, step: Callable[..., Any], walks: Sequence[Walk], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """What each walk has carried to its end, in their order; None where it was over before."""
        self._has_walked = True
        return walked(self._client, self.parts, step, walks, is_over, self._marks)

    def close(self) -> None:
        """Let go of all of it."""
        for crew in self._crews:
            crew.close()
        if self._has_walked:
            with suppress(Exception):  # whoever is gone has let go
                self._client.run(forget, "", on_error="ignore")


class Workers(Crew):
    """Blocks on workers.

    client: the client.
    parts: what each block is read from.
    recipe: what it is made by.
    marks: what each block is known by.
    """

    def __init__(
        self, client: Client, parts: Sequence[Any], recipe: Maker, marks: Sequence[Mark | None] | None = None
    ):
        super().__init__()
        self._client, self._recipe, self._fit = client, recipe, uuid4().hex
        self._parts = dict(enumerate(parts))
        self._marks = [None] * len(parts) if marks is None else marks
        self._homes: dict[int, str] = {}
        self._threads: dict[str, int] = {}
        self._looked, self._failures, self.is_closed = -_NEWS, 0, False
        self._through = dict.fromkeys(self._parts, 0)  # how much of the log a block at home has been through
        # Whoever has no sample of the two classes answers None, and is left out.
        try:
            found = self._all(Change("facts"))
        except BaseException:  # nobody else knows of these blocks yet
            self.close()
            raise
        self._numbers = [number for number in self._parts if found[number] is not None]

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self._numbers)

    def _answers(self, ask: Change | None) -> list[Any]:
        found = self._all(ask)
        return [found[number] for number in self._numbers]

    def close(self) -> None:
        """Have the workers let go of the blocks."""
        if self.is_closed:
            return
        self.is_closed = True
        with suppress(Exception):  # whoever is gone has let go
            self._client.run(forget, self._fit, on_error="ignore")

    # -- the work --------------------------------------------------------------------------------

    def _all(self, ask: Change | None) -> dict[int, Any]:
        """What every block answers."""
        every = getattr(self, "_numbers", list(self._parts))
        left = every
        found: dict[int, Any] = {}
        if time.monotonic() > self._looked + _NEWS:
            self._find_homes()
        under_way: dict[Future, list[int]] = {}
        try:
            while left or under_way:
                for numbers in self._shares(left):
                    under_way[self._send(numbers, ask)] = numbers
                ended = self._ended(list(under_way))
                self._collect({future: under_way.pop(future) for future in ended}, found)
                if under_way:
                    for future in self._lost(under_way):
                        del under_way[future]
                settled = set(found).union(*under_way.values())
                left = [number for number in every if number not in settled]
        except BaseException:
            with suppress(Exception):
                self._client.cancel(list(under_way), force=True)
            raise
        for number in found:
            self._through[number] = len(self.log)
        return found

    def _shares(self, numbers: list[int]) -> list[list[int]]:
        """The blocks for each task: of one home, having been through as much, on each of its threads."""
        by_home: dict[tuple[str, int], list[int]] = {}
        for number in numbers:
            by_home.setdefault((self._homes[number], self._through[number]), []).append(number)
        shares = []
        for (home, _), some in by_home.items():
            size = -(-len(some) // self._threads.get(home, 1))
            shares += [some[k : k + size] for k in range(0, len(some), size)]
        return shares

    def _send(self, numbers: list[int], ask: Change | None) -> Future:
        begins, home = self._through[numbers[0]], self._homes[numbers[0]]
        return self._client.submit(
            answers, self._fit, numbers, self._recipe, [self._parts[n] for n in numbers],
            [self._marks[n] for n in numbers], self.log[begins:], begins, ask,
            key=f"polyopt-{uuid4().hex}", pure=False, workers=[home], retries=0,
        )  # fmt: skip

    def _ended(self, futures: list[Future]) -> list[Future]:
        """Those that have ended, after all have or some time has passed."""
        from distributed import wait

        with suppress(Exception):  # not all in that time, or some were cancelled
            wait(futures, timeout=LOOK)
        return [future for future in futures if future.status != "pending"]

    def _collect(self, ended: dict[Future, list[int]], found: dict[int, Any]) -> None:
        """Take the answers; blocks whose worker is gone or does not know them are to be asked again."""
        for future, numbers in ended.items():
            if future.status == "error":
                self._bear(future.exception(), numbers)
        come = self._gathered([future for future in ended if future.status == "finished"])
        for future, numbers in ended.items():
            for number, answer in zip(numbers, come.get(future.key, [Missing()] * len(numbers)), strict=True):
                if isinstance(answer, Missing):
                    self._through[number] = 0
                else:
                    found[number] = answer
        if any(number not in found for numbers in ended.values() for number in numbers):
            self._find_homes()

    def _bear(self, error: BaseException, numbers: list[int]) -> None:
        """Try again after an error that says that workers were lost; raise any other, and one too many."""
        self._failures += 1
        if not is_loss(error) or self._failures > _FAILURES:
            raise error
        retry(self._client, [self._parts[number] for number in numbers])

    def _gathered(self, finished: list[Future]) -> dict[str, list[Any]]:
        """The answers that can be had, by their keys: not those of a worker that is gone."""
        from asyncio import run_coroutine_threadsafe

        if not finished:
            return {}
        client, there = self._client, set(self._homes.values())
        by_key = {future.key: future for future in finished}
        coming = run_coroutine_threadsafe(
            client.gather(by_key, errors="skip", asynchronous=True), client.loop.asyncio_loop
        )
        while True:
            try:
                return dict(coming.result(timeout=LOOK))
            except TimeoutError:
                if there - set(workers_of(self._client)):
                    coming.cancel()
                    return {}
            except (OSError, ValueError, CancelledError):
                return {}

    def _lost(self, under_way: dict[Future, list[int]]) -> list[Future]:
        """Tasks whose homes are gone; their blocks have new ones then."""
        before = dict(self._homes)
        self._find_homes(and_even=False)
        gone = [
            future
            for future, numbers in under_way.items()
            if any(self._homes[number] != before[number] for number in numbers)
        ]
        with suppress(Exception):
            self._client.cancel(gone, force=True)
        return gone

    def _find_homes(self, *, and_even: bool = True) -> None:
        """Give every block a home that is there: where its samples are, or where there are fewest.

        To be even, a worker that is new takes blocks from those with at least two more.
        """
        self._threads = workers_of(self._client)
        workers = sorted(self._threads)
        homes = {number: home for number, home in self._homes.items() if home in workers}
        load = Counter(dict.fromkeys(workers, 0))
        load.update(homes.values())
        most = -(-len(self._parts) // len(workers))
        holders = self._holders() if not self._homes else {}
        for number in self._parts:
            if number not in homes:
                near = [worker for worker in holders.get(number, ()) if load.get(worker, most) < most]
                homes[number] = min(near or workers, key=lambda worker: (load[worker], worker))
                load[homes[number]] += 1
        for number in reversed(self._parts) if and_even else ():
            idle = min(workers, key=lambda worker: (load[worker], worker))
            if load[homes[number]] >= load[idle] + 2 and load[homes[number]] > most:
                load[homes[number]] -= 1
                load[idle] += 1
                homes[number] = idle
        for number in self._parts:
            if homes[number] != self._homes.get(number):
                self._homes[number], self._through[number] = homes[number], 0
        self._looked = time.monotonic()

    def _holders(self) -> dict[int, Sequence[str]]:
        """The workers that hold the samples of each block."""
        futures = {number: part for number, part in self._parts.items() if hasattr(part, "key")}
        if not futures:
            return {}
        there = self._client.who_has(list(futures.values()))
        return {number: there.get(part.key, ()) for number, part in futures.items()}
