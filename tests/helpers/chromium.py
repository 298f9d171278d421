"""A Chromium of this machine without a window, and links to the lab as a person's are."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from typing import Any

__all__ = ["FLAGS", "find_browser", "fragment"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def find_browser() -> str | None:
    """The program, where one is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def fragment(state: dict[str, Any]) -> str:
    """A state of the lab as a link holds it."""
    rest = {key: value for key, value in state.items() if key != "points"}
    text = json.dumps({**rest, "p": [number for point in state["points"] for number in point]})
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(text.encode()) + packer.flush()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")
