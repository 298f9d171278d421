"""Downloading one file: resumed, tried again, and checked against its digest where one is known."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from polyopt.base.files import temporary_folder

if TYPE_CHECKING:
    import pooch  # type: ignore[import-untyped]

__all__ = ["DIGESTS", "cache_folder", "retrieve"]

# Of the publisher's files, by their names. scikit-learn checks covtype's itself. Those of MNIST, Adult and
# the SMS messages are stated alike by several independent projects that pin them; a9a's MD5 sums likewise.
# Of the others none is known to us.
DIGESTS = {
    "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "adult.data": "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "a9a": "md5:fb3596510d780aaf76a06dc721d49662",
    "a9a.t": "md5:f0bb16cf1ee3e80ff560e9d132ee647e",
    "sms+spam+collection.zip": "sha256:1587ea43e58e82b14ff1f5425c88e17f8496bfcdb67a583dbff9eefaf9963ce3",
}


def cache_folder() -> Path:
    """Where downloaded sets are kept between sessions; a temporary folder for users without a home."""
    import pooch

    folder, spare = Path(pooch.os_cache("polyopt")), temporary_folder()
    return folder if folder.is_absolute() or spare is None else spare


def retrieve(url: str, folder: Path) -> Path:
    """Download one file into a folder, or find it there.

    What an earlier attempt left is continued; a broken connection or a wrong digest is tried again three
    times. A file without a known digest comes with a warning that says so and has its SHA-256.

    folder: where to put it, under the last part of its address.
    OSError: when it cannot be had, or is not the file that it should be.
    """
    import pooch

    base, _, name = url.rpartition("/")
    digest = DIGESTS.get(name)
    pooch.get_logger().setLevel("WARNING")
    source = pooch.create(path=folder, base_url=f"{base}/", registry={name: digest}, retry_if_failed=3)
    try:
        path = Path(source.fetch(name, downloader=_resumed))
    except ValueError as error:  # pooch's word for another digest
        raise OSError(f"what {url} sent is not the file it was: {error}") from error
    if digest is None:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        warnings.warn(
            f"{name} was downloaded unchecked, as no digest of it is known here: only its numbers of rows, "
            f"columns and classes are compared; its SHA-256 is {found}",
            stacklevel=2,
        )
    return path


def _resumed(url: str, output: str, source: pooch.Pooch) -> None:
    """Fetch into a file beside the target, from where it ends, and hand it over when it is whole."""
    import requests
    from urllib3.exceptions import HTTPError

    part = Path(source.abspath) / f"{url.rpartition('/')[2]}.part"
    have = part.stat().st_size if part.exists() else 0
    # As it is: what a publisher compressed is not to be unpacked, nor the rest packed, on the way.
    asked = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=asked, stream=True, timeout=30) as answer:
        if answer.status_code == 416:  # there is nothing after what we have, or it is another file now
            part.unlink()
            raise ValueError(f"{url} does not continue what was downloaded before")
        answer.raise_for_status()
        goes_on = answer.status_code == 206
        with part.open("ab" if goes_on else "wb") as stream:
            try:
                # Where a connection breaks, nothing is kept of the last piece: pieces are small.
                shutil.copyfileobj(answer.raw, stream, 1 << 14)
            except HTTPError as error:
                raise requests.ConnectionError(f"{url} broke off: {error}") from error
        size = answer.headers.get("Content-Length")
        if size is not None and part.stat().st_size != int(size) + have * goes_on:
            raise requests.ConnectionError(f"{url} ended early")
    shutil.move(part, output)
