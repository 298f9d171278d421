"""Bytes of a file, compressed or not, of a pipe, or of standard input."""

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from polyopt.base.text import visible

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MAGIC = {b"\x1f\x8b\x08": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz"}
_BLOCK = b"1AY&SY\x17rE8P\x90"  # beginnings of a first block of bzip2, and of an empty file's
_KINDS: dict[tuple[bytes, ...], str] = {
    (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"): "UTF-32; save it as UTF-8",
    (b"\xff\xfe", b"\xfe\xff"): "UTF-16; save it as UTF-8",
    (b"PK\x03\x04",): "a zip archive or a workbook; unpack it, or save the sheet as CSV in UTF-8",
    (b"\xd0\xcf\x11\xe0",): "a workbook; save the sheet as CSV in UTF-8",
    (b"PAR1",): "a Parquet file; save it as CSV",
    (b"\x93NUMPY",): "an array of NumPy; save it as CSV",
    (b"\x89HDF",): "an HDF5 file; save the table as CSV",
    (b"SQLite format 3",): "an SQLite database; export the table as CSV",
    (b"\x28\xb5\x2f\xfd",): "compressed by zstd; unpack it (gzip, bzip2 and xz are read as they are)",
}
_FIRST_BYTES = 1 << 16  # of a file, from which its format is guessed


class DataFileError(ValueError):
    """The error for a broken data file: its path, the problem, and the line from 1, None for the file."""

    def __init__(self, path: str | Path, problem: str, line: int | None = None) -> None:
        super().__init__(path, problem, line)
        self.path, self.problem, self.line = Path(path), problem, line

    def __str__(self) -> str:
        name = visible(str(self.path))
        where = name if self.line is None else f"{name}, line {self.line}"
        return f"{where}: {self.problem}"


@dataclass(frozen=True)
class Source:
    """A table's bytes, which can be read any number of times."""

    path: Path  #: the file, or a name of standard input for messages
    content: bytes | None = None  #: bytes of a pipe or a compressed file; None for a plain file

    @property
    def name(self) -> str:
        """Name of the file without its folder."""
        return self.path.name

    @property
    def ending(self) -> str:
        """Ending of the file's name in small letters, without that of a compression."""
        last = self.path.suffix.lower()
        return Path(self.path.stem).suffix.lower() if last in _OPENERS else last

    @property
    def size(self) -> int:
        """Number of bytes after decompression."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    def open(self) -> BinaryIO:
        """Return a stream from the first byte on."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def text(self) -> io.TextIOWrapper:
        """Return a stream of its text, in UTF-8, with the ends of lines as they are."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="")

    def beginning(self) -> str:
        """Return the first whole lines; bytes that are not UTF-8 are replaced."""
        with self.open() as stream:
            block = stream.read(_FIRST_BYTES)
        if len(block) == _FIRST_BYTES and b"\n" in block:
            block = block[: block.rindex(b"\n") + 1]
        return block.decode("utf-8-sig", "replace")


def open_source(path: str | Path | Source) -> Source:
    """Return the bytes of a file, a pipe, or standard input (``-``); a Source is returned as it is.

    A file compressed by gzip, bzip2 or xz is known by its first bytes. Compressed files, pipes and standard
    input are read at once. Raises FileNotFoundError, PermissionError, or DataFileError if a compressed file
    is broken or too large for the memory.
    """
    if isinstance(path, Source):
        return path
    if str(path) == "-":
        if sys.stdin is None:
            raise DataFileError("standard input", "is closed")
        return _kept(Path("standard input"), cast(BinaryIO, sys.stdin.buffer))
    found = Path(path)
    check_there(found)
    try:
        regular = stat.S_ISREG(found.stat().st_mode)
        with found.open("rb") as stream:
            packed = found.suffix.lower() in _OPENERS or (
                regular and _packing(stream.peek(16)[:16]) is not None
            )
            return Source(found) if regular and not packed else _kept(found, stream)
    except PermissionError as error:
        raise PermissionError(f"cannot read {str(path)!r}: it may not be read by you") from error


def check_there(path: Path) -> None:
    """Raise FileNotFoundError if a path does not exist, or is a folder."""
    if not path.exists() or path.is_dir():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"cannot read {str(path)!r}: it {kind} (looked at {path.absolute()})")


def kind_of(source: Source) -> str:
    """Guess the kind of a file that is no UTF-8 text, and name a remedy, as a sentence fragment."""
    with source.open() as stream:
        beginning = stream.read(16)
    for starts, kind in _KINDS.items():
        if beginning.startswith(starts):
            return f"is not UTF-8 text but {kind}"
    if _packing(beginning) is not None:
        return "is compressed twice; unpack it once"
    return "is not UTF-8 text; save it with that encoding"


def _packing(beginning: bytes) -> str | None:
    """Return the ending of compressed files with these first bytes, or None."""
    for magic, ending in _MAGIC.items():
        if beginning.startswith(magic) and (ending != ".bz2" or beginning[4:10] in (_BLOCK[:6], _BLOCK[6:])):
            return ending
    return None


def _kept(path: Path, stream: BinaryIO) -> Source:
    """Return the whole content of a stream, decompressed."""
    content = _whole(path, stream)
    ending = _packing(content[:16]) or path.suffix.lower()
    if ending not in _OPENERS or not content:
        return Source(path, content)
    try:
        with _OPENERS[ending](io.BytesIO(content), "rb") as unpacked:
            return Source(path, _whole(path, cast(BinaryIO, unpacked)))
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise DataFileError(path, f"cannot be decompressed ({error})") from error


def _whole(path: Path, stream: BinaryIO) -> bytes:
    limit = memory() // 4
    parts: list[bytes] = []
    total = 0
    while block := stream.read(1 << 22):
        parts.append(block)
        total += len(block)
        if total > limit:
            raise DataFileError(
                path, f"holds more than {limit / 1e9:.1f} GB of text, a quarter of this machine's memory"
            )
    return b"".join(parts)


def memory() -> int:
    """Return the bytes of this machine's memory; a terabyte if the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 10**12
