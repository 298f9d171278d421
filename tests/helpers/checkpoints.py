"""Fits that end at a checkpoint, as by a kill."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from polyopt.scale.checkpoint import Checkpoint


@contextmanager
def killed_at_save(stop):
    """A fit within raises SystemExit after checkpoint number `stop`; yields a list with an item for each."""
    saves, save = [], Checkpoint.__call__

    def saving(self, known):
        save(self, known)
        saves.append(1)
        if len(saves) == stop:
            raise SystemExit

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoint, "__call__", saving)
        yield saves
