"""The two errors a data set can end in: a broken file, and data that cannot be had here."""

from __future__ import annotations

from pathlib import Path

from polyopt.base.text import visible


class DataFileError(ValueError):
    """A data file that does not say what it should.

    Parameters
    ----------
    path : str or Path
        The file.
    problem : str
        What is wrong, as a sentence fragment.
    line : int, optional
        Line number, counted from 1; ``None`` when the whole file is at fault.

    Attributes
    ----------
    path : Path
    problem : str
    line : int or None
    """

    def __init__(self, path: str | Path, problem: str, line: int | None = None) -> None:
        super().__init__(path, problem, line)
        self.path = Path(path)
        self.problem = problem
        self.line = line

    def __str__(self) -> str:
        name = visible(str(self.path))
        where = name if self.line is None else f"{name}, line {self.line}"
        return f"{where}: {self.problem}"


class DatasetUnavailable(OSError):  # noqa: N818 - named for the state it reports, as FileNotFoundError's kin
    """A public data set that is neither on this machine nor to be downloaded now."""
