"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def text():
    return README.read_text(encoding="utf-8")


def what_matters(line):
    """Condition, row and verdict of a table's line: its residuals are rounding, another on each machine."""
    cells = [cell.strip() for cell in line.split("│")]
    return (cells[1], cells[2], cells[-2]) if len(cells) > 3 else line.strip()


def test_the_twenty_lines_print_what_the_readme_says(text):
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    assert 15 <= sum(bool(line.strip()) for line in code.splitlines()) <= 22
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), {})
    lines = printed.getvalue().splitlines()
    shown = re.search(r"The certificate it prints:\n\n```\n(.*?)```", text, re.S).group(1).splitlines()
    assert {what_matters(line) for line in shown} <= {what_matters(line) for line in lines}
    sentence = re.search(r"not optimal: `(.*?)`", text).group(1)
    assert sentence in lines


def test_every_file_it_names_is_there(text):
    for name in re.findall(r"\]\((?!http)([^)]+)\)", text):
        assert (README.parent / name).exists(), name
