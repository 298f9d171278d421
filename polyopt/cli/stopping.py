"""How a command ends that is stopped: its exit status, and a sentence on what is kept."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from formulations.termination import Terminated, came

if TYPE_CHECKING:
    from formulations.clock import Run

__all__ = [
    "BROKEN_PIPE",
    "KeepInterrupted",
    "end_if_stopped",
    "end_process",
    "is_replaced",
    "silence",
    "status_of_stop",
    "tell",
    "whole_command",
]

BROKEN_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 141

KeepInterrupted = Annotated[
    bool,
    typer.Option(
        "--keep-interrupted", help="After Ctrl-C, replace a file that is there by what is done by then."
    ),
]


class _Told:
    """What is kept, at the moment."""

    sentence = "nothing was written"


def tell(sentence: str) -> None:
    """What the sentence at the end says from now on, if the command is stopped.

    Parameters
    ----------
    sentence : str
        What is kept.
    """
    _Told.sentence = sentence


def end_process(status: int) -> None:
    """End the process with a status after a signal.

    Where Ctrl-C came while something was imported, Python would end by the signal in place of a status.

    Parameters
    ----------
    status : int
        The exit status.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def status_of_stop(stop: KeyboardInterrupt | None) -> int:
    """Exit status after an exception that stopped the command; says what is kept.

    Parameters
    ----------
    stop : KeyboardInterrupt or None
        The exception; None for Ctrl-C that something turned into another.
    """
    return _end(signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def whole_command() -> Iterator[Run]:
    """The run of a command; it is stopped where a signal came before it and something took it for its own.

    Yields
    ------
    Run
        It tells whether it was stopped.
    """
    from formulations.runs import one_run

    with one_run() as run:
        if came():
            run.stop(came())
        yield run


def end_if_stopped(run: Run) -> None:
    """End the command, if its run was stopped and went on to its end.

    Parameters
    ----------
    run : Run
        The run.
    """
    if run.is_stopped:
        raise typer.Exit(_end(run.signal))


def _end(number: int) -> int:
    word = "terminated" if number == signal.SIGTERM else "interrupted"
    with suppress(OSError):  # a full disk
        typer.echo(f"{word}: {_Told.sentence}", err=True)
    return 128 + number


def is_replaced(path: Path, keep_interrupted: bool) -> bool:
    """Whether the result of a run that was stopped goes to a file; tells what becomes of it.

    Parameters
    ----------
    path : Path
        The file.
    keep_interrupted : bool
        Whether it is replaced if it is there.
    """
    if not path.exists() or keep_interrupted:
        tell(f"what was done by then is kept in {path}")
        return True
    tell(f"{path} is as it was; --keep-interrupted replaces it by what was done by then")
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
