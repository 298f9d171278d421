"""Checkpoints of fits on blocks: the log of the solver's changes and the state of its loop, without samples.

The log has the changes that the solver has applied to its blocks, in order; the state that it keeps with each
block is recomputed from the log. So a checkpoint has some vectors of the size of w for each iteration,
whatever the number of samples. It replaces the previous checkpoint when it is complete.
"""

import pickle
import warnings
from dataclasses import is_dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

from polyopt.base.files import check_target, write_bytes
from polyopt.linalg.rounding import Ball
from polyopt.scale.blocks import Pair
from polyopt.scale.crew import Change
from polyopt.scale.executor import Executor

_FORMAT = "polyopt checkpoint 7"


class Checkpoint:
    """The checkpoint of a fit. A call writes it, if there is a file to write.

    path: the file to write, or None.
    resume: the file from which the fit resumes, or None.
    executor, pair, settings: samples, classes and settings of the fit; a file must be of a fit with the same.
    log: the changes so far; at first those of the resumed file. The solver appends to it between two calls.
    state: the state of the loop in the resumed file, or None.

    A failure to write, such as a full disk, does not end a fit: the first one is a warning, the previous
    checkpoint stays, and the next call tries again.
    """

    def __init__(
        self, path: str | Path | None, resume: str | Path | None, executor: Executor, pair: Pair,
        **settings: Any,
    ):  # fmt: skip
        if path is not None:
            check_target(path, "checkpoint")
        self._path, self._has_failed = path, False
        self.log: list[Change] = []
        self.state: dict[str, Any] | None = None
        reports = executor.inspect()
        samples = repr((pair.classes, [report.checksum for report in reports]))
        self._about = settings | {
            "features": reports[0].m, "blocks": executor.count, "C": pair.C, "factors": repr(pair.factors),
            "digest": sha256(samples.encode()).hexdigest(),
        }  # fmt: skip
        if resume is not None:
            self.log, self.state = load(resume, self._about)

    def __call__(self, state: dict[str, Any]) -> None:
        """Write the state of the loop, if there is a file."""
        if self._path is None:
            return
        content = pickle.dumps((_FORMAT, self._about, self.log, state))
        try:
            write_bytes(self._path, content)
        except OSError as error:
            if not self._has_failed:
                warnings.warn(
                    f"{error}. The fit goes on; a checkpoint written before is whole.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._has_failed = True


def load(path: str | Path, about: dict[str, Any]) -> tuple[list[Change], dict[str, Any]]:
    """Return the log and the state of the loop from a checkpoint.

    about: samples, classes and settings of the fit, as named values.
    ValueError: not a checkpoint of this version, or one of another fit.
    """
    with open(path, "rb") as stream:
        try:
            version, about_file, log, state = _Reader(stream).load()
        except Exception as error:
            raise ValueError(f"{str(path)!r} is no checkpoint of this version: {error}") from error
    if version != _FORMAT:
        raise ValueError(f"{str(path)!r} is no checkpoint of this version, but {version!r}")
    differing = [name for name in about if about_file.get(name) != about[name]]
    if differing == ["digest"]:
        raise ValueError(f"{str(path)!r} is of another fit: its samples, labels or weights were others")
    if differing:
        name = differing[0]
        raise ValueError(
            f"{str(path)!r} is of another fit: {name} was {about_file.get(name)!r}, and is {about[name]!r}"
        )
    return log, state


_NUMPY_NAMES = {"_reconstruct", "scalar", "ndarray", "dtype"}  # names by which pickle restores an array


class _Reader(pickle.Unpickler):
    """Unpickler of numbers, texts, arrays, and records and enums of polyopt, which refuses all other classes.

    So a file that is not a checkpoint cannot run other code.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a checkpoint may hold; pickle.UnpicklingError for any other."""
        root = module.partition(".")[0]
        if root == "numpy" and name in _NUMPY_NAMES:
            return super().find_class(module, name)
        found = super().find_class(module, name) if root in ("polyopt", "formulations") else None
        is_record = isinstance(found, type) and (
            issubclass(found, tuple | Enum | Ball) or is_dataclass(found)
        )
        if not is_record or getattr(found, "__module__", "") != module:
            raise pickle.UnpicklingError(f"it holds {module}.{name}")
        return found
