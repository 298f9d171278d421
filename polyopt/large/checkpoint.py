"""Checkpoints of the interior point on blocks: the log of changes and what the loop knows, and no samples.

From these every block is made anew, so a checkpoint has some vectors of the size of w for each iteration,
whatever the number of samples. It replaces the one before it when it is whole.
"""

from __future__ import annotations

import json
import math
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from polyopt.base.files import check_target, write_bytes
from polyopt.margin.interior_point.crew import Change

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Saver", "load", "machine_of", "probe", "save"]

_FORMAT = "polyopt checkpoint 2"


def probe(*shape: int) -> NDArray[np.float64]:
    """Weights, always the same: what some samples cost at these tells them, and their labels, from others."""
    places = np.arange(math.prod(shape), dtype=float)
    return ((7919.0 * places + 13.0) % 101.0 - 50.0).reshape(shape) / 50.0


def save(path: str | Path, log: list[Change], known: dict[str, Any], about: dict[str, Any]) -> None:
    """Write a checkpoint.

    path: the file; one that is there is replaced when the new one is whole.
    known: what the loop knows: numbers, arrays, or lists of records.
    about: what machine and samples these are, in plain values.
    OSError: when the file cannot be written; the message names it.
    """
    arrays: dict[str, Any] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"a{len(arrays)}"] = value
            return {"array": f"a{len(arrays) - 1}"}
        if isinstance(value, bool | np.bool_):
            return bool(value)
        return {"float": float(value).hex()} if isinstance(value, float) else value

    changes = [[change.name, [plain(each) for each in change.arguments]] for change in log]
    loop = {name: plain(value) for name, value in known.items()}
    head = {"format": _FORMAT, "about": about, "log": changes, "known": loop}
    stream = BytesIO()
    np.savez(stream, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    write_bytes(path, stream.getvalue())


class Saver:
    """Writes a checkpoint after every iteration, as long as it can: a full disk does not end a fit.

    The first failure is a warning; the checkpoint that was written last stays, and the next iteration tries
    again.
    """

    def __init__(self, path: str | Path, log: list[Change], about: dict[str, Any]):
        check_target(path, "checkpoint")
        self._path, self.log, self._about, self._has_failed = path, log, about, False

    def __call__(self, known: dict[str, Any]) -> None:
        """Write what the loop knows."""
        try:
            save(self._path, self.log, known, self._about)
        except OSError as error:
            if not self._has_failed:
                warnings.warn(
                    f"{error}. The fit goes on; a checkpoint written before is whole.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._has_failed = True


def load(path: str | Path, about: dict[str, Any]) -> tuple[list[Change], dict[str, Any]]:
    """Read a checkpoint of this machine and these samples.

    about: as of :func:`save`.
    Returns: all changes, and what the loop knew.
    ValueError: no checkpoint, or one of something else.
    FileNotFoundError: no such file.
    """
    head, arrays = _read(path)
    was = head["about"]
    differing = [name for name in about if was.get(name) != about[name]]
    if differing == ["digest"]:
        raise ValueError(f"{str(path)!r} is of another fit: its samples, labels or weights were others")
    if differing:
        name = differing[0]
        raise ValueError(
            f"{str(path)!r} is of another fit: {name} was {was.get(name)!r}, and is {about[name]!r}"
        )

    def value(each: Any) -> Any:
        if isinstance(each, dict) and "array" in each:
            return arrays[each["array"]]
        return float.fromhex(each["float"]) if isinstance(each, dict) and "float" in each else each

    log = [Change(name, tuple(value(each) for each in given)) for name, given in head["log"]]
    return log, {name: value(each) for name, each in head["known"].items()}


def machine_of(path: str | Path) -> str:
    """What a checkpoint is of: the name of its machine, or of the part of a fit that it was written in.

    ValueError, FileNotFoundError: as of :func:`load`.
    """
    return str(_read(path)[0]["about"].get("machine"))


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The head of a checkpoint, and its arrays."""
    try:
        with np.lib.npyio.NpzFile(BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
            head = json.loads(file["head"].tobytes())
            arrays = {name: file[name] for name in file.files if name != "head"}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ValueError(f"{str(path)!r} is no checkpoint: {error}") from error
    if head.get("format") != _FORMAT:
        raise ValueError(f"{str(path)!r} is no checkpoint of this version")
    return head, arrays
