"""Files are replaced whole or not at all, whatever ends the writing."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from polyopt.base import files
from polyopt.base.text import escape, in_picture, visible
from polyopt.datasets.loading import Parts, write_npz


def only(folder):
    return sorted(path.name for path in folder.iterdir())


def test_written_file_is_alone(tmp_path):
    """The new content is in place, without temporary files beside it."""
    path = tmp_path / "a.txt"
    files.write_text(path, "grün\r\n")
    assert path.read_bytes() == "grün\r\n".encode()
    assert only(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError, MemoryError, SystemExit])
def test_failed_write_keeps_old_file(tmp_path, end):
    """Any exception in the block leaves the old content, and no temporary file."""
    path = tmp_path / "a"
    path.write_text("old")

    def begin_and_end():
        with files.replacing(path) as stream:
            stream.write(b"half of the new")
            raise end

    with pytest.raises(end):
        begin_and_end()
    assert path.read_text() == "old"
    assert only(tmp_path) == ["a"]


def test_full_disk_keeps_old_file(tmp_path):
    """As a disk of 100 kB: the system itself refuses to write on."""
    path = tmp_path / "set.npz"
    path.write_bytes(b"old")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write '.*set\.npz': File too large") as caught:
            write_npz(path, Parts(np.random.default_rng(0).random((200, 100)), [0] * 200))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old"
    assert only(tmp_path) == ["set.npz"]


def test_permissions_are_kept(tmp_path):
    """An old file keeps its mode, and a new one has that of the umask."""
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    files.write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    (tmp_path / "made").touch()
    files.write_text(tmp_path / "b", "new")
    assert (tmp_path / "b").stat().st_mode == (tmp_path / "made").stat().st_mode


def test_link_keeps_its_target(tmp_path):
    """The file behind a symbolic link is replaced."""
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    files.write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert only(tmp_path / "folder") == ["a"]
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "folder" / "b")
    files.write_text(dangling, "made")
    assert (tmp_path / "folder" / "b").read_text() == "made"


def test_pipes_are_written_directly(tmp_path):
    """A device or pipe is not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    files.write_text("/dev/null", "gone")
    assert only(tmp_path) == ["pipe"]


def test_dash_is_standard_output(capsysbinary):
    """The content of "-" goes to standard output."""
    files.write_text("-", "out")
    assert capsysbinary.readouterr().out == b"out"


def test_odd_names_are_written(tmp_path):
    """Names of the greatest length, with line breaks, or of bytes that are no UTF-8."""
    for name in ("x" * 255, "ü" * 127, "new\nline", "[red]", b"\xff.csv".decode("utf-8", "surrogateescape")):
        files.write_text(tmp_path / name, name)
        assert (tmp_path / name).read_bytes() == os.fsencode(name)
    assert len(only(tmp_path)) == 5


def test_targets_are_checked_first(tmp_path):
    """A target that is the input, a folder, or in no folder is named."""
    data, copy, link = tmp_path / "d.csv", tmp_path / "hard", tmp_path / "soft"
    data.write_text("1,2")
    os.link(data, copy)
    link.symlink_to(data)
    for target in (data, copy, link, tmp_path / "." / "d.csv"):
        with pytest.raises(ValueError, match=r"--out: .* is the file that is read"):
            files.check_target(target, "--out", inputs=("sonar", data))
        files.check_target(target, "--out", inputs=(data,), replace_input=True)
    with pytest.raises(ValueError, match=r"--out: .* is a folder; give the name of a file"):
        files.check_target(tmp_path, "--out")
    with pytest.raises(ValueError, match=r"--out: the folder .*no does not exist"):
        files.check_target(tmp_path / "no" / "a", "--out")
    (tmp_path / "lost").symlink_to(tmp_path / "no" / "a")
    with pytest.raises(ValueError, match=r"--out: the folder .*no does not exist"):
        files.check_target(tmp_path / "lost", "--out")
    with pytest.raises(ValueError, match="does not exist"):
        files.check_target(data / "a", "--out")
    for fine in (None, "-", "/dev/stdout", tmp_path / "new"):
        files.check_target(fine, "--out", inputs=(data,))
    assert data.read_text() == "1,2"


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_write_protection_is_told_first(tmp_path, monkeypatch, locked):
    """A protected file or folder is named before it is written."""
    target = tmp_path / "a"
    target.write_text("old")
    refused = target if locked == "file" else tmp_path
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(refused))
    with pytest.raises(PermissionError, match=r"--out: .* is write-protected"):
        files.check_target(target, "--out")


def test_kills_leave_old_or_new_file(tmp_path):
    """Each kill hits another moment of a process that writes without a pause."""
    script = textwrap.dedent("""
        import sys
        from polyopt.base.files import write_bytes
        for i in range(10**9):
            write_bytes(sys.argv[1], bytes([i % 251]) * 300_000)
            if i == 0:
                print("begun", flush=True)
    """)
    path = tmp_path / "a"
    for wait in range(4):
        writer = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE)
        writer.stdout.readline()
        for _ in range(wait * 3):  # so many more states of the file are seen before the kill
            content = path.read_bytes()
            assert len(content) == 300_000
            assert len(set(content)) == 1
        writer.kill()
        writer.communicate()
        content = path.read_bytes()
        assert len(content) == 300_000
        assert len(set(content)) == 1


# -- text from outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grün 10 % [red]x[/red] 日本", "grün 10 % [red]x[/red] 日本"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("a\u202eb\u2066", r"a\u202eb\u2066"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        (b"\xff".decode("utf-8", "surrogateescape"), r"\udcff"),
        ("\u2028", r"\u2028"),
    ],
)
def test_control_characters_are_shown(text, shown):
    """A name in a sentence cannot move the terminal's cursor."""
    assert visible(text) == shown
    assert visible("a\n\x1b", keep="\n") == "a\n\\x1b"
    assert escape(f"<{text}>", quote=False).count("<") == 0
    assert "\x1b" not in escape(text)
    assert in_picture(f"${text}").startswith(r"\$")
