"""Atomic writing of files and folders: the old content is replaced completely or not at all.

:func:`replacing` and :func:`replacing_folder` write; :func:`check_target` and :func:`check_folder` refuse a
target in advance that could not be written. Errors name the file and the command's option.
"""

import contextlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

STANDARD = "-"  # stands for standard input or standard output in place of a file's name


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces the file, unless the block raises an exception.

    The content is written to a temporary file in the same folder, synchronised to the disk, and renamed: a
    reader of the target sees either the old content or the complete new one. Permissions do not change, and a
    symbolic link still points to its target. A pipe, a terminal, ``/dev/stdout`` and ``-`` (standard output)
    are written directly.

    OSError: the file cannot be written; the message names it and gives the reason.
    """
    with _naming_file_in_errors(path):
        if str(path) == STANDARD:
            sys.stdout.flush()
            yield cast(BinaryIO, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif _is_written_directly(Path(path)):
            with open(path, "wb") as stream:
                yield stream
        else:
            with _temporary_file(Path(os.path.realpath(path))) as stream:
                yield stream


@contextmanager
def _naming_file_in_errors(path: str | Path) -> Iterator[None]:
    """Raise an OSError of the block again with a message that names the file."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has closed the pipe: not an error of the file
    except OSError as error:
        renamed = type(error)(f"cannot write {str(path)!r}: {error.strerror or error}")
        renamed.errno = error.errno
        raise renamed from error


def _is_written_directly(path: Path) -> bool:
    """Return True if the path is not a regular file, or is in /dev: ``/dev/stdout`` may link to a file."""
    if str(path.absolute()).startswith(("/dev/", "/proc/")):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode)


@contextmanager
def _temporary_file(target: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file in the target's folder, which replaces the target unless the block raises."""
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
    with contextlib.suppress(OSError, AttributeError):  # no old file, or no such calls on this system
        old = target.stat()
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    """Synchronise a folder, with its new names, to the disk, on systems that support it."""
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
    """Replace a file's content by a text in UTF-8; surrogate escapes become the original bytes again."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"))


def check_target(
    path: str | Path | None, option: str, *, inputs: Iterable[str | Path] = (), replace_input: bool = False,
    is_alone: bool = True,
) -> None:  # fmt: skip
    """Refuse in advance a target that could not be written; None is accepted.

    option: the command's option, with which the message begins.
    inputs: files that are read; only if `replace_input` the target may be one of them, by any name or link.
    is_alone: True if nothing else is printed; only then the target may be standard output.
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
    if _is_written_directly(target):
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{option}: the folder {folder} is write-protected")
    for name in () if replace_input else inputs:
        if target.exists() and os.path.exists(name) and os.path.samefile(target, name):
            raise ValueError(f"{option}: {target} is the file that is read; name another, or add --force")


def check_is_file(path: Path, content: str) -> None:
    """Refuse a path that is not a file; `content`, such as ``"model"``, is used in the messages."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a {content} is read from a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a pipe or a device; a {content} is read from a file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no {content} file {str(path)!r}")


def is_writable(folder: Path) -> bool:
    """Return True if a file can be created in a folder or, if it does not exist, in its nearest parent."""
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False


# -- folders -----------------------------------------------------------------------------------------


def check_folder(folder: str | Path, not_empty: str | None) -> None:
    """Refuse in advance a folder that :func:`replacing_folder` could not write.

    not_empty: the end of the message that refuses a folder with files; None if the files may be replaced.
    """
    name, resolved = str(folder), Path(os.path.realpath(folder))
    if resolved.exists() and not resolved.is_dir():
        raise ValueError(f"{name} is a file; give the name of a folder")
    if not resolved.parent.is_dir():
        raise ValueError(f"the folder {resolved.parent} does not exist")
    if resolved == Path.cwd():
        raise ValueError(f"{name} is the folder that you are in; name one in it")
    if not_empty is not None and resolved.is_dir() and any(resolved.iterdir()):
        raise ValueError(f"{name} is not empty{not_empty}")
    for target in (resolved.parent, resolved):
        if target.exists() and not os.access(target, os.W_OK | os.X_OK):
            raise PermissionError(f"the folder {target} is write-protected")


@contextmanager
def replacing_folder(folder: str | Path, *, copies_old: bool = False) -> Iterator[Path]:
    """Yield a new folder that replaces `folder`; if the block raises an exception, the new folder is removed.

    The new folder is next to the old one; if `copies_old`, it starts as a copy of it. A symbolic link still
    points to its target. OSError: the folder cannot be written; the message names it and gives the reason.
    """
    resolved = Path(os.path.realpath(folder))
    new, old = (resolved.with_name(f".polyopt.{secrets.token_hex(6)}.{word}") for word in ("part", "old"))
    with _naming_file_in_errors(folder):
        try:
            if copies_old and resolved.is_dir():
                shutil.copytree(resolved, new, symlinks=True)
            else:
                new.mkdir()
            yield new
            if resolved.exists():
                resolved.rename(old)
            new.rename(resolved)
        finally:  # after Ctrl-C as well
            shutil.rmtree(old, ignore_errors=True)
            shutil.rmtree(new, ignore_errors=True)
