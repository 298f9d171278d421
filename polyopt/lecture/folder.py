"""Writing a folder so that it is there whole, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from polyopt.base.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_folder", "write_folder"]


def check_folder(folder: str | Path, force: bool) -> None:
    """Refuse a folder before the work for it begins.

    Parameters
    ----------
    folder : str or Path
        The folder.
    force : bool
        Whether files that are there may be replaced.

    Raises
    ------
    ValueError
        It is a file, it is not empty, or the folder that it is to be in is not there.
    PermissionError
        One of the two is write-protected.
    """
    place = Path(os.path.realpath(folder))
    name = visible(str(folder))
    if place.exists() and not place.is_dir():
        raise ValueError(f"--out: {name} is a file; give the name of a folder")
    if not place.parent.is_dir():
        raise ValueError(f"--out: the folder {visible(str(place.parent))} does not exist")
    if place.is_dir() and any(place.iterdir()) and not force:
        raise ValueError(f"--out: {name} is not empty; name another folder, or add --force")
    for target in (place.parent, place):
        if target.exists() and not os.access(target, os.W_OK | os.X_OK):
            raise PermissionError(f"--out: the folder {visible(str(target))} is write-protected")


def write_folder(folder: str | Path, files: Mapping[str, str], *, force: bool = False) -> None:
    """Write some files into a folder; where one cannot be written, all that was there stays as it was.

    All are written beside the folder first. A folder that was not there, or was empty, then comes into being
    at once. Of one that has files, those of the same names are replaced, one after the other, and the others
    stay.

    Parameters
    ----------
    folder : str or Path
        The folder; it is made where there is none.
    files : mapping of str to str
        The text of each, by its name in the folder; a slash in a name is a folder in it.
    force : bool
        Whether files that are there may be replaced.

    Raises
    ------
    ValueError, PermissionError
        As of :func:`check_folder`.
    OSError
        A file cannot be written; the message names the folder.
    """
    check_folder(folder, force)
    place = Path(os.path.realpath(folder))
    unfinished = place.with_name(f".lecture.{secrets.token_hex(6)}.part")
    try:
        for name, text in files.items():
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        if place.is_dir() and any(place.iterdir()):
            _replace(unfinished, place, files)
        else:
            if place.is_dir():
                place.rmdir()
            unfinished.rename(place)
    except OSError as error:
        named = type(error)(f"cannot write {visible(str(folder))!r}: {error.strerror or error}")
        named.errno = error.errno
        raise named from error
    finally:  # after Ctrl-C as well
        shutil.rmtree(unfinished, ignore_errors=True)


def _replace(new: Path, old: Path, files: Mapping[str, str]) -> None:
    """Put each new file into the place of the old one, once it is known that every place can be taken."""
    for name in files:
        target = old / name
        if target.is_dir() or any(part.is_file() for part in target.parents if part != old):
            raise IsADirectoryError(
                None, f"{name} is in the way: a folder for a file, or a file for a folder"
            )
    for name in files:
        target = old / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / name, target)
