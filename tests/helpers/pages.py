"""The code of a page in Markdown: run block after block, and what it prints beside what the page shows.

A block ``python`` is run. A block ``output`` that follows it, with nothing between, shows what
it prints: words and whole numbers are the same, and numbers with a decimal point agree to a unit in the last
digit that is shown. ``python tests/helpers/pages.py PAGE ...`` writes the outputs of pages anew.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

_FENCE = re.compile(r"^```(?P<kind>\S*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Tags(HTMLParser):
    """The tags of a page with their attributes, all closed; its text, and what it loads or runs."""

    _VOID = ("meta", "br", "img", "link", "input", "hr")
    _LOADED = ("src", "href", "xlink:href", "srcset", "action")

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.open = "", list[str]()
        self.feed(text)
        assert self.open == []

    @property
    def loads(self) -> list[str]:
        """What the page loads from elsewhere, and handlers of events."""
        links = [(name, value or "") for _, found in self.tags for name, value in found.items()]
        found = [tag for tag, _ in self.tags if tag in ("link", "iframe", "object", "embed", "base")]
        found += [
            value for name, value in links if name in self._LOADED and not value.startswith(("#", "data:"))
        ]
        return found + [name for name, _ in links if name.startswith("on")]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


@dataclass(frozen=True)
class Block:
    """A block of code of a page; `shown` is what the page says it prints, and `place` where that stands."""

    code: str
    printed: str
    shown: str | None
    place: slice


def blocks(page: str, path: str | Path) -> list[Block]:
    """The blocks of a page, run one after the other."""
    names: dict[str, object] = {"__name__": "page"}
    fences, found = list(_FENCE.finditer(page)), []
    for fence, after in pairwise([*fences, None]):
        if fence["kind"] != "python":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(fence["text"], str(path), "exec"), names)
        shown, place = None, slice(0, 0)
        if after is not None and after["kind"] == "output" and not page[fence.end() : after.start()].strip():
            shown, place = after["text"], slice(*after.span("text"))
        found.append(Block(fence["text"], printed.getvalue(), shown, place))
    return found


def printed_by(page: str, path: str | Path) -> list[str]:
    """The lines that the code of a page prints, its blocks one after the other."""
    return "".join(block.printed for block in blocks(page, path)).splitlines()


def differences(shown: str, printed: str) -> list[str]:
    """A line for each that is shown and not printed, or printed otherwise."""
    ours, theirs = ([" ".join(line.split()) for line in text.splitlines()] for text in (shown, printed))
    if len(ours) != len(theirs):
        return [f"{len(ours)} lines are shown, {len(theirs)} are printed:\n{printed}"]
    pairs = zip(ours, theirs, strict=True)
    return [f"shown: {one}\nprinted: {other}" for one, other in pairs if not _agree(one, other)]


def _agree(shown: str, printed: str) -> bool:
    if _NUMBER.split(shown) != _NUMBER.split(printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(one == other or _near(one, other) for one, other in pairs)


def _near(shown: str, printed: str) -> bool:
    digits, _, power = shown.partition("e")
    if "." not in digits or "." not in printed:
        return False
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return abs(float(shown) - float(printed)) <= 1.000001 * unit


def written_anew(page: str, path: str | Path) -> str:
    """The page with what its code prints in the place of what it shows."""
    for block in reversed(blocks(page, path)):
        if block.shown is not None:
            page = page[: block.place.start] + block.printed.rstrip("\n") + "\n" + page[block.place.stop :]
    return page


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(written_anew(file.read_text(encoding="utf-8"), name), encoding="utf-8")
