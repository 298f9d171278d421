"""Output of the commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from polyopt.text import visible

if TYPE_CHECKING:
    from rich.console import Console

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


def output(at_least: int = 0) -> Console:
    """The console for results: as wide as the terminal, and 120 columns where there is none.

    A table that would lose its columns in a narrower terminal asks for a least width: there its lines are
    broken by the terminal, but whole.
    """
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        """A console to which text is text: neither markup nor control characters mean anything."""

        def render_str(self, text: str, **settings: Any) -> Text:
            return super().render_str(visible(text, keep="\n"), **settings)

    def console(width: int | None) -> Console:
        return Plain(width=width, highlight=False, markup=False, emoji=False)

    found = console(None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH)
    return found if found.width >= at_least else console(at_least)


def say(sentence: str) -> None:
    """A remark on standard error, on one line."""
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
def progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A progress bar on standard error, if that is a terminal.

    Yields a function that takes what is going on, and how many steps were finished since.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=total)

        def step(text: str, steps: int) -> None:
            bar.update(task, description=visible(text), advance=steps)

        yield step
