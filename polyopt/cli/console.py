"""Output of the commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["output", "progress", "say", "sentences_at_once", "warnings_as_sentences"]

_PIPED_WIDTH = 120  # columns, where no terminal tells


def output(at_least: int = 0) -> Console:
    """The console for results: as wide as the terminal, and 120 columns where there is none.

    A table that would lose its columns in a narrower terminal asks for a least width: there its lines are
    broken by the terminal, but whole.
    """
    from rich.console import Console

    fixed = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH
    console = Console(width=fixed, highlight=False)
    return console if console.width >= at_least else Console(width=at_least, highlight=False)


def say(sentence: str) -> None:
    """A remark on standard error."""
    typer.echo(sentence, err=True)


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Each warning raised inside as one line on standard error, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"warning: {' '.join(message.split())}")


@contextmanager
def sentences_at_once() -> Iterator[None]:
    """Each warning raised inside as one line on standard error, as it comes."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {' '.join(str(message).split())}")
        yield


@contextmanager
def progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A progress bar on standard error, if that is a terminal.

    Yields a function that takes what is going on, and how many steps were finished since.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=total)

        def step(text: str, steps: int) -> None:
            bar.update(task, description=text, advance=steps)

        yield step
