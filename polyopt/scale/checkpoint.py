"""Checkpoints of fits on blocks: the log of the solver's changes and the state of its loop, without samples.

The solver's state of a block is recomputed from the log. So a checkpoint has some vectors of the size of w
for each iteration, whatever the number of samples. It replaces the previous checkpoint when it is complete.
"""

import json
import warnings
from dataclasses import fields
from enum import Enum
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from formulations.language.solution import Status
from polyopt.base.files import check_target, write_bytes
from polyopt.certificates.certificate import Certificate, Claim, Residual
from polyopt.scale.blocks import Pair
from polyopt.scale.crew import Change
from polyopt.scale.executor import Executor

T = TypeVar("T")

_FORMAT = "polyopt checkpoint 6"


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
        arrays: list[NDArray[Any]] = []
        head = {"format": _FORMAT, "about": self._about, "log": self.log, "state": state}
        head = {name: _plain(value, arrays) for name, value in head.items()}
        stream = BytesIO()
        np.savez(stream, *arrays, head=np.frombuffer(json.dumps(head).encode(), np.uint8))
        try:
            write_bytes(self._path, stream.getvalue())
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
    try:
        with np.lib.npyio.NpzFile(BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
            head = json.loads(file["head"].tobytes())
            arrays = [file[f"arr_{number}"] for number in range(len(file.files) - 1)]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ValueError(f"{str(path)!r} is no checkpoint: {error}") from error
    if head.get("format") != _FORMAT:
        raise ValueError(f"{str(path)!r} is no checkpoint of this version")
    before, log, state = (_restored(head[name], arrays) for name in ("about", "log", "state"))
    differing = [name for name in about if before.get(name) != about[name]]
    if differing == ["digest"]:
        raise ValueError(f"{str(path)!r} is of another fit: its samples, labels or weights were others")
    if differing:
        name = differing[0]
        raise ValueError(
            f"{str(path)!r} is of another fit: {name} was {before.get(name)!r}, and is {about[name]!r}"
        )
    return log, state


# -- values as JSON ----------------------------------------------------------------------------------

_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (Change, Certificate, Residual, Claim, Status)}


def saved(cls: type[T]) -> type[T]:
    """Decorate a NamedTuple, dataclass or enumeration that may be in a checkpoint."""
    _CLASSES[cls.__name__] = cls
    return cls


def _plain(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a value of the state as JSON, and append its arrays; objects are ``{class: content}``."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    name = type(value).__name__
    if isinstance(value, Enum):
        return {name: value.name}
    if name in _CLASSES:
        names = getattr(value, "_fields", None) or [each.name for each in fields(value)]
        return {name: [_plain(getattr(value, field), arrays) for field in names]}
    if isinstance(value, list | tuple):
        return [_plain(each, arrays) for each in value]
    if isinstance(value, dict):
        return {"dict": {key: _plain(each, arrays) for key, each in value.items()}}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return {"float": float(value).hex()} if isinstance(value, float) else value


def _restored(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return the value of :func:`_plain`; a sequence is a list, and in an object a tuple."""
    match plain:
        case list():
            return [_restored(each, arrays) for each in plain]
        case {"array": int(number)}:
            return arrays[number]
        case {"float": str(digits)}:
            return float.fromhex(digits)
        case {"dict": dict(content)}:
            return {name: _restored(each, arrays) for name, each in content.items()}
        case dict():
            [(name, content)] = plain.items()
            if isinstance(content, str):
                return _CLASSES[name][content]
            values = _restored(content, arrays)
            return _CLASSES[name](*(tuple(each) if isinstance(each, list) else each for each in values))
    return plain
