"""Checkpoints of fits on blocks: the log of the solver's changes and the state of its loop, without samples.

The solver's state of a block is recomputed from the log. So a checkpoint has some vectors of the size of w
for each iteration, whatever the number of samples. It replaces the previous checkpoint when it is complete.
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
    """The checkpoint of a fit, to be written, resumed, both or none of it.

    path: the file to be written, or None.
    resume: the file to be resumed, or None.
    executor, pair, settings: samples, classes and settings of the fit, which only this fit resumes.
    log: the changes, which may grow between two writings; those of the resumed file at first.
    state: the resumed state of the loop, or None.

    A failure, such as a full disk, does not end a fit: the first one is a warning, the last checkpoint stays,
    and the next call tries again.
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
    """Return the log and the state of the loop from a checkpoint of this machine and these samples.

    ValueError: not a checkpoint, or one of another fit.
    """
    with open(path, "rb") as stream:
        try:
            version, before, log, state = _Reader(stream).load()
        except Exception as error:
            raise ValueError(f"{str(path)!r} is no checkpoint of this version: {error}") from error
    if version != _FORMAT:
        raise ValueError(f"{str(path)!r} is no checkpoint of this version, but {version!r}")
    differing = [name for name in about if before.get(name) != about[name]]
    if differing == ["digest"]:
        raise ValueError(f"{str(path)!r} is of another fit: its samples, labels or weights were others")
    if differing:
        name = differing[0]
        raise ValueError(
            f"{str(path)!r} is of another fit: {name} was {before.get(name)!r}, and is {about[name]!r}"
        )
    return log, state


_ARRAYS = {"_reconstruct", "scalar", "ndarray", "dtype"}  # names of numpy that an array is read by


class _Reader(pickle.Unpickler):
    """Reads numbers, texts, arrays, and records and enums of polyopt: nothing that runs other code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of a checkpoint; pickle.UnpicklingError for another one."""
        root = module.partition(".")[0]
        if root == "numpy" and name in _ARRAYS:
            return super().find_class(module, name)
        found = super().find_class(module, name) if root in ("polyopt", "formulations") else None
        is_record = isinstance(found, type) and (
            issubclass(found, tuple | Enum | Ball) or is_dataclass(found)
        )
        if not is_record or getattr(found, "__module__", "") != module:
            raise pickle.UnpicklingError(f"it holds {module}.{name}")
        return found
