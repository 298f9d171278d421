"""The command line: compare, catalogue, show, verify, duals, fit, predict, rules, info, export, doctor.

Every command imports what it needs when it runs, so that ``polyopt --help`` answers at once. Bad input
ends in one sentence on standard error and exit status 2, never in a traceback.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from polyopt.cli.catalogue import catalogue
from polyopt.cli.compare import compare
from polyopt.cli.console import say, sentences_at_once
from polyopt.cli.doctor import doctor
from polyopt.cli.duals import duals
from polyopt.cli.export import export
from polyopt.cli.fit import fit
from polyopt.cli.info import info
from polyopt.cli.predict import predict
from polyopt.cli.rules import rules
from polyopt.cli.show import show
from polyopt.cli.verify import verify

__all__ = ["app", "main"]


_STATUSES = (
    "Exit status: 0 done; 1 a check fails (verify) or something needed is missing (doctor); 2 bad input, "
    "told in a sentence; 130 stopped by Ctrl-C; 143 stopped by SIGTERM."
)


class _Commands(TyperGroup):
    """The group of commands, which turns what they raise into a sentence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with sentences_at_once():
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise  # these say how to end, and are RuntimeErrors and OSErrors by birth
        except (ValueError, OSError, RuntimeError, MemoryError) as error:
            say(f"error: {error}")
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    epilog=_STATUSES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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


for command in (compare, catalogue, show, verify, duals, fit, predict, rules, info, export, doctor):
    app.command()(command)


def main() -> None:
    """Entry point of the ``polyopt`` command."""
    app()
