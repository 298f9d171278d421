"""What the handbook's chapters show is what their code prints, and what shows something else is seen."""

import re
from pathlib import Path

import pytest
from helpers.pages import blocks, differences, written_anew

import polyopt
from polyopt.exercises import CHAPTERS
from polyopt.methods.programs import entries

FOLDER = Path(polyopt.__path__[0]) / "handbook" / "chapters"
PAGES = sorted(FOLDER.glob("*.md"))
DIRECTIVE = re.compile(r"^```\{(\w+)\} (\S+)$", re.M)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_chapter_shows_what_it_prints(path):
    """The output blocks of a chapter are those of its code."""
    found = blocks(path.read_text(encoding="utf-8"), path)
    for block in found:
        assert (block.shown is None) == (not block.printed), f"printed and not shown, by\n{block.code}"
        assert differences(block.shown or "", block.printed) == []


def test_named_programs_and_exercises_exist():
    """Of every directive of a chapter."""
    programs = {entry.name for entry in entries()}
    named = [found for path in PAGES for found in DIRECTIVE.findall(path.read_text(encoding="utf-8"))]
    assert {name for kind, name in named if kind == "program"} <= programs
    assert {name for kind, name in named if kind == "exercises"} == set(CHAPTERS)
    assert {kind for kind, _ in named} == {"program", "exercises"}


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("gap 1.25", "gap 1.2512", True),
        ("gap 1.25", "gap 1.259", True),
        ("gap 1.25", "gap 1.27", False),
        ("gap 1.25", "gap 1.2e9", False),
        ("-0.000", "0.000", True),
        ("3 faces", "4 faces", False),
        ("3 faces", "3.0 faces", False),
        ("1.0 faces", "1.0 face", False),
        ("one", "one\ntwo", False),
        ("1.2e-05", "1.3e-05", True),
        ("1.2e-05", "1.2e-04", False),
    ],
)
def test_shown_numbers_agree_to_last_digit(shown, printed, agree):
    """Words and whole numbers agree to the letter."""
    assert (differences(shown, printed) == []) == agree


def test_page_can_be_written_anew():
    """The outputs of a page are replaced by those of its code."""
    page = "```python\nprint(1 / 3)\n```\n\n```output\n```\n\nwords\n\n```output\nof nothing\n```\n"
    again = written_anew(page, "page.md")
    assert again == page.replace("```output\n```", f"```output\n{1 / 3}\n```")
    assert [block.shown for block in blocks(again, "page.md")] == [f"{1 / 3}\n"]
