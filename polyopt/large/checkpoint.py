"""Checkpoints of fits on blocks: the log of the solver's changes and the state of its loop, without samples.

The solver's state of a block is recomputed from the log. So a checkpoint has some vectors of the size of w
for each iteration, whatever the number of samples. It replaces the previous checkpoint when it is complete.
"""

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

_FORMAT = "polyopt checkpoint 5"


def probe(*shape: int) -> NDArray[np.float64]:
    """Return fixed weights, at which the loss of samples is a digest of samples and labels."""
    index = np.arange(math.prod(shape), dtype=float)
    return ((7919.0 * index + 13.0) % 101.0 - 50.0).reshape(shape) / 50.0


class CheckpointWriter:
    """Writer of checkpoints.

    log: the changes, which may grow between two checkpoints.
    about: identity of machine and samples, in plain values.

    A failure, such as a full disk, does not end a fit: the first one is a warning, the last checkpoint stays,
    and the next call tries again.
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

        changes = [[change.name, [plain(value) for value in change.arguments]] for change in self.log]
        loop = {name: plain(value) for name, value in state.items()}
        head = {"format": _FORMAT, "about": self._about, "log": changes, "state": loop}
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
    """Return the log and the state of the loop from a checkpoint of this machine and these samples.

    ValueError: not a checkpoint, or one of another fit.
    """
    head, arrays = _read(path)
    saved = head["about"]
    differing = [name for name in about if saved.get(name) != about[name]]
    if differing == ["digest"]:
        raise ValueError(f"{str(path)!r} is of another fit: its samples, labels or weights were others")
    if differing:
        name = differing[0]
        raise ValueError(
            f"{str(path)!r} is of another fit: {name} was {saved.get(name)!r}, and is {about[name]!r}"
        )

    def restore(plain: Any) -> Any:
        if isinstance(plain, dict) and "array" in plain:
            return arrays[plain["array"]]
        return float.fromhex(plain["float"]) if isinstance(plain, dict) and "float" in plain else plain

    log = [Change(name, tuple(restore(plain) for plain in arguments)) for name, arguments in head["log"]]
    return log, {name: restore(plain) for name, plain in head["state"].items()}


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
