"""Output of the commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from polyopt.base.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from polyopt.base.progress import Step, Watch

__all__ = [
    "emit",
    "output",
    "progress",
    "say",
    "sentences_at_once",
    "visible",
    "warnings_as_sentences",
]

_PIPED_WIDTH = 120  # columns, where no terminal tells
_SECONDS_BEFORE_PROGRESS = 2.0


def output(at_least: int = 0) -> Console:
    """The console for results: as wide as the terminal, and 120 columns where there is none.

    A table that would lose its columns in a narrower terminal asks for a least width: there its lines are
    broken by the terminal, but whole.
    """
    from rich.console import Console

    class Plain(Console):
        """A console to which text is text: neither markup nor control characters mean anything."""

        def render_str(self, text: str, **settings: Any) -> Text:
            return super().render_str(visible(text, keep="\n"), **settings)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich's own ends with exit status 1

    def console(width: int | None) -> Console:
        return Plain(width=width, highlight=False, markup=False, emoji=False)

    found = console(None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH)
    if found.width < 1:  # a terminal of 0 columns, which tells nothing
        found = console(_PIPED_WIDTH)
    return found if found.width >= at_least else console(at_least)


def say(sentence: str) -> None:
    """A remark on standard error, on one line; a full disk there keeps nothing from being done."""
    with suppress(OSError):
        typer.echo(visible(" ".join(sentence.split())), err=True)


def emit(text: str) -> None:
    """Lines on standard output: as they are for a program, control characters written out for a person."""
    typer.echo(visible(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False, color=True)


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Each warning raised inside as one line on standard error, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"warning: {message}")


@contextmanager
def sentences_at_once() -> Iterator[None]:
    """Each warning raised inside as one line on standard error, as it comes."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


@contextmanager
def progress(what: str, quiet: bool = False, total: int = 0) -> Iterator[Step]:
    """A line on standard error for what runs longer than two seconds inside, if that is a terminal.

    It shows the share that is done, where something is counted, the elapsed time and, of what is left, an
    estimate from that share; then what is going on.

    total: steps of the loop inside, which tells the yielded object when one is done; 0 where there is none,
        or where what runs inside says itself how far it is.
    """
    from polyopt.base.progress import Step, steps, watching

    with ExitStack() as stack:
        if not quiet and sys.stderr.isatty():
            stack.enter_context(_drawn(stack.enter_context(watching()), "" if total else what))
        yield stack.enter_context(steps(total, what)) if total else Step(0, what)


@contextmanager
def _drawn(watch: Watch, title: str) -> Iterator[None]:
    """Draw the watch from the third second on, until the end."""
    import threading

    from rich.console import Console
    from rich.live import Live

    begun = time.monotonic()
    live = Live(
        console=Console(stderr=True), transient=True, refresh_per_second=4, redirect_stdout=False,
        get_renderable=lambda: _line(watch, title, time.monotonic() - begun),
    )  # fmt: skip
    timer = threading.Timer(_SECONDS_BEFORE_PROGRESS, live.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        live.stop()


def _line(watch: Watch, title: str, elapsed: float) -> Text:
    """A bar of 12 columns, times, and as much of what is going on as there is room for."""
    from rich.text import Text

    share, line = watch.share, Text(no_wrap=True, overflow="ellipsis")
    if share is not None:
        full = round(12 * share)
        line.append("━" * full, style="green").append("─" * (12 - full), style="dim")
        line.append(f" {share:.0%} ")
    line.append(_clock(elapsed))
    if share is not None and share >= 0.02:  # less tells little of the rest
        line.append(f", {_clock(elapsed * (1.0 - share) / share)} left")
    words = visible(": ".join(filter(None, (title, watch.text))))
    return line.append(f"  {words}", style="dim")


def _clock(seconds: float) -> str:
    """Seconds as ``1:05`` or ``2:03:04``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
