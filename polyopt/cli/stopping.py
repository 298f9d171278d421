"""The end of a command that is stopped: its exit status, and a sentence on what is kept.

Ctrl-C and SIGTERM raise KeyboardInterrupt in a command. A solver that catches it keeps its best point and
says so in its status. The command goes on with that point, and :func:`end_if_stopped` ends it with the exit
status.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

__all__ = [
    "BROKEN_PIPE",
    "answer_signals",
    "came",
    "end_if_stopped",
    "end_process",
    "forget",
    "is_replaced",
    "raise_if_stopped",
    "silence",
    "status_of_stop",
    "tell",
]

BROKEN_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 141


class _State:
    """Sentence on what is kept at the moment, and number of the first signal that came (0 if none)."""

    sentence = "nothing was written"
    number = 0


def tell(sentence: str) -> None:
    """Change the sentence at the end of a command that is stopped: what is kept from now on."""
    _State.sentence = sentence


def came() -> int:
    """The number of the first signal that came; 0 while there was none."""
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
    """End the process with an exit status after a signal.

    If Ctrl-C came while something was imported, Python would end by the signal in place of a status.
    """
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
    """Return True if the result of a command that was stopped goes to a file; tells what becomes of it.

    A file that is there is replaced only with `force`.
    """
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
