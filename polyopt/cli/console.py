"""Output of the commands, and their end when they are stopped.

Results go to standard output, everything else to standard error. Ctrl-C and SIGTERM raise KeyboardInterrupt.
A solver that catches it keeps its best point and says so in its status. The command goes on with that point,
and :func:`end_if_stopped` ends it with the exit status and a sentence on what is kept.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from polyopt.base.text import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.text import Text

    from polyopt.base.progress import Step, Watch


BROKEN_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 141


class _State:
    """The sentence on what is kept at the moment, and the number of the first signal (0 if none)."""

    sentence = "nothing was written"
    number = 0


def tell(sentence: str) -> None:
    """Change the sentence at the end of a command that is stopped: what is kept from now on."""
    _State.sentence = sentence


def came() -> int:
    """Return the number of the first signal that came; 0 while there was none."""
    return _State.number


def forget() -> None:
    """Forget the signal that ended another command of this process."""
    _State.number = 0


def answer_signals() -> None:
    """Let Ctrl-C and SIGTERM raise KeyboardInterrupt, unless they are answered otherwise than by default."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _State.number = _State.number or number
    raise KeyboardInterrupt


def end_process(status: int) -> None:
    """End the process with an exit status; during an import, Python itself would end by the signal."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def status_of_stop() -> int:
    """Exit status of a command that a signal ended; says what is kept."""
    number = came() or signal.SIGINT
    word = "terminated" if number == signal.SIGTERM else "interrupted"
    with suppress(OSError):  # a full disk
        typer.echo(f"{word}: {_State.sentence}", err=True)
    return 128 + number


def raise_if_stopped() -> None:
    """Raise KeyboardInterrupt if a signal came and something else caught it, as an import may."""
    if came():
        raise KeyboardInterrupt


def end_if_stopped(is_cut: bool) -> None:
    """End the command if a signal came, or cut its work short, and what was done by then is kept."""
    if is_cut or came():
        raise typer.Exit(status_of_stop())


def is_replaced(path: Path, force: bool) -> bool:
    """Return True if a stopped command's result goes to a file: a new one, or with `force` any; tell so."""
    if not path.exists() or force:
        tell(f"what was done by then is kept in {path}")
        return True
    tell(f"{path} is as it was; --force replaces it by what was done by then")
    return False


def silence() -> None:
    """Write to nobody, after the reader of the standard output has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process
    finally:
        os.close(nowhere)


_PIPED_WIDTH = 120  # columns, where no terminal tells
_SECONDS_BEFORE_PROGRESS = 2.0


def output(at_least: int = 0) -> Console:
    """Return the console for results: as wide as the terminal, or 120 columns, but `at_least` some columns.

    In a narrower terminal a table's lines are broken, but whole.
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
    """Print a remark on one line of standard error; a full disk there is no error."""
    with suppress(OSError):
        typer.echo(visible(" ".join(sentence.split())), err=True)


def emit(text: str) -> None:
    """Print lines on standard output, with control characters written out on a terminal."""
    typer.echo(visible(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False, color=True)


@contextmanager
def sentences_at_once() -> Iterator[None]:
    """Print each warning raised inside on one line of standard error, at once and once."""
    said = set[str]()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # of one library by another
        warnings.showwarning = show
        yield


@contextmanager
def progress(
    what: str, quiet: bool = False, total: int = 0, *, after: float = _SECONDS_BEFORE_PROGRESS
) -> Iterator[Step]:
    """Draw a line on a terminal's standard error while something runs longer than `after` seconds inside.

    It shows the share that is done, the elapsed time, an estimate of the time left, and the step. `total`
    counts the steps of a loop, which tells the yielded object when one is done.
    """
    from polyopt.base.progress import Step, steps, watching

    with ExitStack() as stack:
        if not quiet and sys.stderr.isatty():
            stack.enter_context(_drawn(stack.enter_context(watching()), "" if total else what, after))
        yield stack.enter_context(steps(total, what)) if total else Step(0, what)


@contextmanager
def _drawn(watch: Watch, title: str, after: float) -> Iterator[None]:
    """Draw the watch after some seconds, until the end."""
    import threading

    bar = bar_of(watch, title)
    timer = threading.Timer(after, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def bar_of(watch: Watch, title: str) -> Progress:
    """Return a bar, times, and as much of what is going on as there is room for, on one line."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    class Bar(Progress):
        """A bar that asks the watch whenever it is drawn."""

        def get_renderables(self) -> Iterable[RenderableType]:
            words = visible(": ".join(filter(None, (title, watch.text))))
            total = None if watch.fraction is None else 1.0
            for task in self.task_ids:  # the one below, once it is there
                self.update(task, total=total, completed=watch.fraction or 0.0, description=words)
            return super().get_renderables()

    text = TextColumn(
        "{task.description}", "dim", markup=False,
        table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
    )  # fmt: skip
    parts = BarColumn(12), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn(), text
    bar = Bar(
        *parts, console=Console(stderr=True), transient=True, refresh_per_second=4, expand=True,
        redirect_stdout=False,
    )  # fmt: skip
    bar.add_task(title)
    return bar
