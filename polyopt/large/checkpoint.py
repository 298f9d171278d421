"""Checkpoints of fits on blocks: the log of changes and the state of the loop, without samples.

Every block is made anew from these, so a checkpoint has some vectors of the size of w for each iteration,
whatever the number of samples. It replaces the checkpoint before it when it is complete.
"""

from __future__ import annotations

import json
import math
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from polyopt.base.files import check_target, write_bytes
from polyopt.margin.interior_point.crew import Change

_FORMAT = "polyopt checkpoint 4"


def probe(*shape: int) -> NDArray[np.float64]:
    """Fixed weights, at which the loss of samples serves as a digest of them and of their labels."""
    places = np.arange(math.prod(shape), dtype=float)
    return ((7919.0 * places + 13.0) % 101.0 - 50.0).reshape(shape) / 50.0


class CheckpointWriter:
    """Writes a checkpoint after every iteration, as long as it can: a full disk does not end a fit.

    The first failure is a warning; the last checkpoint stays, and the next iteration tries again. `about`
    identifies machine and samples in plain values.
    """

    def __init__(self, path: str | Path, log: list[Change], about: dict[str, Any]):
        check_target(path, "checkpoint")
        self._path, self.log, self._about, self._has_failed = path, log, about, False

    def __call__(self, state: dict[str, Any]) -> None:
        """Write the state of the loop: numbers, arrays, or lists of records."""
        arrays: dict[str, Any] = {}

        def plain(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                arrays[f"a{len(arrays)}"] = value
                return {"array": f"a{len(arrays) - 1}"}
            if isinstance(value, bool | np.bool_):
                return bool(value)
            return {"float": float(value).hex()} if isinstance(value, float) else value

        changes = [[change.name, [plain(each) for each in change.arguments]] for change in self.log]
        loop = {name: plain(value) for name, value in state.items()}
        head = {"format": _FORMAT, "about": self._about, "log": changes, "known": loop}
        stream = BytesIO()
        np.savez(stream, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
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
    """Read all changes and the state of the loop from a checkpoint of this machine and these samples.

    ValueError: not a checkpoint, or one of another fit.
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
    """Return the name of a checkpoint's machine, or of the part of a fit in which it was written."""
    return str(_read(path)[0]["about"].get("machine"))


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the head of a checkpoint, and its arrays."""
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
