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
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from polyopt.base.text import visible

if TYPE_CHECKING:
    from rich.console import Console
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
def warnings_as_sentences() -> Iterator[None]:
    """Print each warning raised inside on one line of standard error, once, at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"warning: {message}")


@contextmanager
def sentences_at_once() -> Iterator[None]:
    """Print each warning raised inside on one line of standard error, at once."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


@contextmanager
def progress(what: str, quiet: bool = False, total: int = 0) -> Iterator[Step]:
    """Draw a line on a terminal's standard error while something runs longer than two seconds inside.

    It shows the share that is done, the elapsed time, an estimate of the time left, and the step. `total`
    counts the steps of a loop, which tells the yielded object when one is done.
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
    """Return a bar of 12 columns, times, and as much of what is going on as there is room for."""
    from rich.text import Text

    share, line = watch.fraction, Text(no_wrap=True, overflow="ellipsis")
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
    """Return seconds as ``1:05`` or ``2:03:04``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
