"""The commands as a test calls them, small tables for them, and a registry with a test's own methods."""

import webbrowser
from contextlib import contextmanager
from functools import cache

import numpy as np
import typer.testing
from typer.testing import CliRunner

from polyopt.cli import app
from polyopt.methods import METHODS
from polyopt.methods.registry import BUILT_IN

# The commands are made of their functions once, for that takes longer than many of them.
typer.testing._get_command = cache(typer.testing._get_command)


def run(*arguments, given=None, width=120, **environment):
    """Run a command in this process, with `given` on its standard input."""
    runner = CliRunner(env={"COLUMNS": str(width), **environment})
    return runner.invoke(app, [str(each) for each in arguments], prog_name="polyopt", input=given)


def worked(*arguments, **more):
    """Return the output of a command that succeeds."""
    done = run(*arguments, **more)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments, **more):
    """Return what a command says that refuses its input, without a traceback and its lines joined."""
    done = run(*arguments, **more)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.output.split())


def write(path, *rows, separator=","):
    """Write rows of cells into a file of text."""
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def small_table(folder):
    """A CSV file of 30 samples of two classes, with two features."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 15)
    X = rng.normal(size=(30, 2)) + 1.5 * y[:, None]
    path = folder / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt=["%.6f", "%.6f", "%d"])
    return path


@contextmanager
def registry(*methods, alone=False):
    """The built-in methods and these, or these alone; the registry is as it was at the end."""
    kept = dict(vars(METHODS))
    vars(METHODS).clear()
    METHODS.__init__({**({} if alone else BUILT_IN), **{method.name: method for method in methods}})
    if methods:
        METHODS.complete = METHODS.by_name  # no entry points are read
    try:
        yield METHODS
    finally:
        vars(METHODS).clear()
        vars(METHODS).update(kept)


class Opened(webbrowser.BaseBrowser):
    """A browser that opens nothing and keeps the addresses."""

    links: list[str] = []  # noqa: RUF012

    def open(self, url, new=0, autoraise=True):
        self.links.append(url)
        return True


webbrowser.register("of the tests", None, Opened(), preferred=True)
