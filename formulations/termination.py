"""Signals as exceptions, for commands. Light to import."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

__all__ = ["Terminated", "came", "forget", "raise_interrupted", "raise_terminated"]

_came: list[int] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, as an exception: all that ends by Ctrl-C ends by it."""


def came() -> int:
    """The number of the first signal that one of these answered; 0 while there was none."""
    return _came[0] if _came else 0


def forget() -> None:
    """What came before, another command of this process has dealt with."""
    _came.clear()


def raise_interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Answer Ctrl-C as Python does, and remember it: what is being imported may turn it into another error.

    Parameters
    ----------
    number : int
        The number of the signal.
    frame : frame
        Where it came.
    """
    _came.append(signal.SIGINT)
    raise KeyboardInterrupt


def raise_terminated(number: int, frame: FrameType | None) -> NoReturn:
    """Answer SIGTERM by raising :class:`Terminated`.

    Parameters
    ----------
    number : int
        The number of the signal.
    frame : frame
        Where it came.
    """
    _came.append(signal.SIGTERM)
    raise Terminated
