"""The command line: compare, show, verify, duals, fit, predict, rules, explain, and so on.

Every command imports what it needs when it runs, so that ``polyopt --help`` answers at once. Bad input
ends in one sentence on standard error and exit status 2, never in a traceback.

Exit status: 0 where all is well; 1 where something was checked and falls short (``verify``); 2 for bad input
or a bad option; 130 after Ctrl-C and 143 after SIGTERM, with a sentence on what is kept; 141 where the reader
of the standard output has gone, as of ``polyopt show svm | head``. A file that is there is not replaced by
the result of a run that was stopped, unless ``--force`` asks for it.
"""

import codecs
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from polyopt.cli.compare import compare
from polyopt.cli.console import (
    BROKEN_PIPE,
    answer_signals,
    came,
    end_process,
    forget,
    say,
    sentences_at_once,
    silence,
    status_of_stop,
    tell,
)
from polyopt.cli.doctor import doctor
from polyopt.cli.duals import duals
from polyopt.cli.fit import certify, fit
from polyopt.cli.models import explain, export, info, rules
from polyopt.cli.pages import handbook, lab, lecture
from polyopt.cli.predict import predict
from polyopt.cli.show import show
from polyopt.cli.verify import verify

__all__ = ["app", "main"]


_STATUSES = (
    "Exit status: 0 done; 1 a check fails (verify) or something needed is missing (doctor); 2 bad input, "
    "told in a sentence; 130 stopped by Ctrl-C; 143 stopped by SIGTERM; 141 nobody reads the output. Ctrl-C "
    "keeps what is done by then."
)


@contextmanager
def _as_sentences() -> Iterator[None]:
    """Turn what is raised inside into a sentence and an exit status."""
    try:
        yield
    except BrokenPipeError:
        silence()
        raise typer.Exit(BROKEN_PIPE) from None
    except (typer.Exit, typer.Abort):
        raise  # these say how to end, and are RuntimeErrors by birth
    except KeyboardInterrupt:
        raise typer.Exit(status_of_stop()) from None
    except Exception as error:
        # A signal may have become an error: imports do so, and C code that goes on without a value.
        if came():
            raise typer.Exit(status_of_stop()) from None
        if not isinstance(error, ValueError | OSError | RuntimeError | MemoryError):
            raise
        say(f"error: {error}")
        raise typer.Exit(2) from None


class _Commands(TyperGroup):
    """The group of commands, which turns what they raise into a sentence."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        forget()
        tell("nothing was written")
        with _as_sentences():  # help is printed while the options are read
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _as_sentences(), sentences_at_once():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, epilog=_STATUSES, pretty_exceptions_enable=False,
    rich_markup_mode=None,
)  # fmt: skip


def _version(asked: bool) -> None:
    if asked:
        import polyopt

        typer.echo(f"polyopt {polyopt.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Large-margin and polyhedral classifiers as mathematical programs, solved and certified."""


for command in (
    compare, show, verify, duals, fit, certify, predict, rules, explain, info, export, lab,
    lecture, handbook, doctor,
):  # fmt: skip
    app.command()(command)


def _say_all(stream: Any) -> None:
    """Let a stream take every character: in an ASCII locale as UTF-8, in others by its number."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    encoding = codecs.lookup(stream.encoding).name
    if encoding == "ascii":
        stream.reconfigure(encoding="utf-8")
    elif not encoding.startswith("utf"):
        stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point of the ``polyopt`` command."""
    answer_signals()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        _say_all(getattr(sys, name))
    try:
        app()
    except KeyboardInterrupt:  # while the commands were made of their functions
        end_process(status_of_stop())
    except SystemExit as end:
        if end.code not in (130, 143):
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # all is done: Python takes a moment to end
            raise
        end_process(end.code)
