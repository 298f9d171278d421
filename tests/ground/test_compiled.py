"""Compilation: it counts against no limit of time, and its caches are the user's own."""

from __future__ import annotations

import os
import stat
import tempfile
import time

import pytest
from numba.extending import overload

from formulations.clock import Clock
from polyopt.compiled import njit
from polyopt.files import temporary_folder

SLOW = 0.2  # seconds that a compilation takes at least


def slow_to_compile():
    """Return a new function that calls another one, which takes time to compile."""

    def answer(x):
        return x

    @overload(answer)
    def _answer(x):
        time.sleep(SLOW)
        return lambda x: x

    @njit
    def inner(x):
        return answer(x)

    @njit
    def outer(x):
        return inner(x)

    return outer


def test_compilation_counts_against_no_limit():
    """A clock shows at most what passed beside the compilation, and no less than nothing."""
    function = slow_to_compile()
    before = time.perf_counter()
    clock = Clock()
    assert function(2.0) == 2.0
    seconds = clock.seconds
    assert 0.0 <= seconds <= time.perf_counter() - before - SLOW


def test_a_deadline_moves_by_the_compilation():
    """A clock has at least as much left as if only the other seconds had passed."""
    function, limit = slow_to_compile(), 1000.0
    before = time.perf_counter()
    clock = Clock(limit)
    function(2.0)
    assert limit - (time.perf_counter() - before - SLOW) <= clock.left <= limit


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Python's temporary folder, where nobody has looked for the user's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary_folder.cache_clear()
    yield tmp_path
    temporary_folder.cache_clear()


@pytest.mark.skipif(os.name == "nt", reason="each user of Windows has a temporary folder")
class TestTemporaryFolder:
    """What is kept there is run: it is the user's alone, or nobody's."""

    def test_it_is_made_for_the_user_alone(self, temporary):
        """Nobody else can read it or write to it, and it is found again."""
        folder = temporary_folder()
        assert folder.parent == temporary
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        temporary_folder.cache_clear()
        assert temporary_folder() == folder

    @pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o701], ids=oct)
    def test_one_that_others_can_enter_is_refused(self, temporary, mode):
        """Whatever the right that others have."""
        temporary_folder().chmod(mode)
        temporary_folder.cache_clear()
        assert temporary_folder() is None

    @pytest.mark.parametrize("kind", ["link", "file"])
    def test_what_is_no_folder_is_refused(self, temporary, kind):
        """A link may lead to anywhere."""
        folder = temporary_folder()
        folder.rename(temporary / "elsewhere")
        folder.symlink_to(temporary / "elsewhere") if kind == "link" else folder.touch()
        temporary_folder.cache_clear()
        assert temporary_folder() is None
