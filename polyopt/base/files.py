"""Files that are replaced whole or not at all, and errors that name them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

STANDARD = "-"  # standard input or standard output, where a file could be named


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces the file if the block ends well, and is dropped otherwise.

    The content goes to a temporary file beside the target, reaches the disk, and is renamed: a reader of the
    target sees the old content or the new, whole. The old permissions are kept, and a symbolic link keeps its
    target. A pipe, a terminal, ``/dev/stdout`` and ``-``, which is standard output, are written directly.

    OSError: the file cannot be written; the message names it and says why.
    """
    with _naming(path):
        if str(path) == STANDARD:
            sys.stdout.flush()
            yield cast(BinaryIO, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif _is_written_straight(Path(path)):
            with open(path, "wb") as stream:
                yield stream
        else:
            with _beside(Path(os.path.realpath(path))) as stream:
                yield stream


@contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Put the errors of the system in a sentence that names the file."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has gone, which is no fault of the file
    except OSError as error:
        named = type(error)(f"cannot write {str(path)!r}: {error.strerror or error}")
        named.errno = error.errno
        raise named from error


def _is_written_straight(path: Path) -> bool:
    """Return True for a path of no regular file; ``/dev/stdout`` links to one if output is redirected."""
    if str(path.absolute()).startswith(("/dev/", "/proc/")):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode)


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    short = os.fsdecode(os.fsencode(target.name)[:200])  # most systems allow 255 bytes
    unfinished = target.with_name(f".{short}.{secrets.token_hex(6)}.part")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(None, "it is write-protected")
    try:
        with open(unfinished, "xb") as stream:
            _keep_permissions(target, stream.fileno())
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, target)
    except BaseException:  # Ctrl-C as well
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _keep_permissions(target: Path, descriptor: int) -> None:
    """Copy the old file's owner and permissions, as far as the system allows."""
    with contextlib.suppress(OSError, AttributeError):  # there is none; or no such calls on this system
        old = target.stat()
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    """Write the new name to the disk too, on systems that can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Replace a file's content, as :func:`replacing` does."""
    with replacing(path) as stream:
        stream.write(content)


def write_text(path: str | Path, text: str) -> None:
    """Replace a file's content by a text in UTF-8; bytes of a file's name that were no UTF-8 come back."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"))


def check_target(
    path: str | Path | None, option: str, *, inputs: Iterable[str | Path] = (), replace_input: bool = False,
    is_alone: bool = True,
) -> None:  # fmt: skip
    """Refuse a target that could not be written, before the work for it begins; None passes.

    The message begins with the `option` that named it. The target may not be one of the `inputs`, by whatever
    link or name, unless `replace_input`; nor standard output, unless it `is_alone` there.
    """
    if str(path) == STANDARD and not is_alone:
        raise ValueError(f"{option}: standard output has what is printed; give the name of a file")
    if path is None or str(path) == STANDARD:
        return
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{option}: {target} is a folder; give the name of a file")
    folder = Path(os.path.realpath(target)).parent if target.is_symlink() else target.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{option}: the folder {folder} does not exist")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{option}: {target} is write-protected")
    if _is_written_straight(target):
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{option}: the folder {folder} is write-protected")
    for name in () if replace_input else inputs:
        if target.exists() and os.path.exists(name) and os.path.samefile(target, name):
            raise ValueError(f"{option}: {target} is the file that is read; name another, or add --force")


def check_is_file(path: Path, what: str) -> None:
    """Refuse a path that is no file; `what` is read from it, such as ``"model"``."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a {what} is read from a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a pipe or a device; a {what} is read from a file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no {what} file {str(path)!r}")


def is_writable(folder: Path) -> bool:
    """Return True if a file can be made in a folder or, if there is none, in its first parent there is."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False


@cache
def temporary_folder() -> Path | None:
    """Return the user's own folder among the temporary ones, for caches without another place.

    Its content is trusted, so a folder of another user, or one that others can enter, is not taken: None.
    """
    try:
        owner = os.getuid() if hasattr(os, "getuid") else None  # Windows has one for each user
        folder = Path(tempfile.gettempdir(), "polyopt" if owner is None else f"polyopt-{owner}")
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_private = owner is None or (
        found.st_uid == owner and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    )
    return folder if stat.S_ISDIR(found.st_mode) and is_private and is_writable(folder) else None


# -- folders -----------------------------------------------------------------------------------------


def check_folder(folder: str | Path, not_empty: str | None) -> None:
    """Refuse a folder that :func:`replacing_folder` could not write, before the work for it begins.

    `not_empty` ends the sentence that refuses a folder with files in it; None if these may be replaced.
    """
    name, place = str(folder), Path(os.path.realpath(folder))
    if place.exists() and not place.is_dir():
        raise ValueError(f"{name} is a file; give the name of a folder")
    if not place.parent.is_dir():
        raise ValueError(f"the folder {place.parent} does not exist")
    if place == Path.cwd():
        raise ValueError(f"{name} is the folder that you are in; name one in it")
    if not_empty is not None and place.is_dir() and any(place.iterdir()):
        raise ValueError(f"{name} is not empty{not_empty}")
    for target in (place.parent, place):
        if target.exists() and not os.access(target, os.W_OK | os.X_OK):
            raise PermissionError(f"the folder {target} is write-protected")


@contextmanager
def replacing_folder(folder: str | Path, *, copies_old: bool = False) -> Iterator[Path]:
    """Yield a new folder that replaces `folder` if the block ends well, and is removed otherwise.

    The new folder stands beside the old one; if it `copies_old`, it begins with the same files. A symbolic
    link keeps its target. OSError: the folder cannot be written; the message names it and says why.
    """
    place = Path(os.path.realpath(folder))
    new, old = (place.with_name(f".polyopt.{secrets.token_hex(6)}.{word}") for word in ("part", "old"))
    with _naming(folder):
        try:
            if copies_old and place.is_dir():
                shutil.copytree(place, new, symlinks=True)
            else:
                new.mkdir()
            yield new
            if place.exists():
                place.rename(old)
            new.rename(place)
        finally:  # after Ctrl-C as well
            shutil.rmtree(old, ignore_errors=True)
            shutil.rmtree(new, ignore_errors=True)
