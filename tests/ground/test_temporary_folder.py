"""The user's own folder among the temporary ones, where nobody else can put anything."""

from __future__ import annotations

import os
import stat
import tempfile

import pytest

from polyopt.base.files import temporary_folder


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Python's temporary folder, where nobody has looked for the user's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary_folder.cache_clear()
    yield tmp_path
    temporary_folder.cache_clear()


@pytest.mark.skipif(os.name == "nt", reason="each user of Windows has a temporary folder")
class TestTemporaryFolder:
    """What is kept there is trusted: it is the user's alone, or nobody's."""

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
