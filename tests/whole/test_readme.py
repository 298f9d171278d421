"""What the README and the tour show is what happens, and their figures are those that were measured."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from helpers.cases import in_turn
from helpers.pages import printed_by

import polyopt
from benchmarks.helpers import markdown

ROOT = Path(__file__).parents[2]
PACKAGE = Path(polyopt.__path__[0])  # installed, or in the clone
README = ROOT / "README.md"
HANDBOOK = PACKAGE / "handbook"
PAGES = [
    README,
    *sorted(path for path in HANDBOOK.rglob("*.md") if path.name != "results.md"),
    *ROOT.glob("CONTRIBUTING.md"),
    markdown.PAGE,
]


@pytest.fixture(scope="module")
def text():
    return README.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tour():
    return (HANDBOOK / "tour.md").read_text(encoding="utf-8")


def what_matters(line):
    """Condition, row and verdict of a table's line: its residuals are rounding, another on each machine."""
    cells = [cell.strip() for cell in line.split("│")]
    return (cells[1], cells[2], cells[-2]) if len(cells) > 3 else line.strip()


def test_the_front_page_is_a_page(text):
    assert len(text.splitlines()) <= 150


def test_the_six_lines_print_what_the_readme_says(text):
    shown = re.search(r"The last two print:\n\n```\n(.*?)```", text, re.S).group(1).splitlines()
    without_numbers = [re.sub(r"-?\d+\.\d+", "number", line) for line in shown]
    printed = [re.sub(r"-?\d+\.\d+", "number", line) for line in printed_by(text, README)]
    assert printed[-len(shown) :] == without_numbers


def test_the_tour_runs_and_prints_what_it_says(tour):
    lines = printed_by(tour, HANDBOOK / "tour.md")
    shown = re.search(r"The certificate it prints:\n\n```\n(.*?)```", tour, re.S).group(1).splitlines()
    assert {what_matters(line) for line in shown} <= {what_matters(line) for line in lines}
    assert re.search(r"not optimal: `(.*?)`", tour).group(1) in lines


def test_the_page_on_probabilities_runs_and_is_right():
    lines = printed_by((HANDBOOK / "probabilities.md").read_text(encoding="utf-8"), "probabilities.md")
    loss, accuracy = map(float, lines[0].split())
    assert loss < 0.55
    assert accuracy > 0.7
    assert lines[1:] == ["True True"]


def test_the_page_on_conformal_sets_runs_and_they_hold_the_labels():
    pytest.importorskip("mapie")
    [line] = printed_by((HANDBOOK / "conformal.md").read_text(encoding="utf-8"), "conformal.md")
    assert float(line[:4]) > 0.85  # of 231 sets, 0.9 being asked for


@in_turn("path", PAGES)
def test_every_file_it_names_is_there(path):
    for name in re.findall(r"\]\((?!http|#)([^)]+)\)", path.read_text(encoding="utf-8")):
        name = name.partition("#")[0]
        inside = name.removeprefix("polyopt/")
        assert (PACKAGE / inside if inside != name else path.parent / name).exists(), name


# -- figures -------------------------------------------------------------------------------------------


def test_every_figure_of_the_readme_s_table_is_of_a_kept_table(tmp_path, text):
    copy = shutil.copy(README, tmp_path)
    markdown.write_speed(Path(copy))
    assert Path(copy).read_text(encoding="utf-8") == text
    spoilt = text.replace("| Times faster |", "| Times |")
    Path(copy).write_text(spoilt, encoding="utf-8")
    markdown.write_speed(Path(copy))
    assert Path(copy).read_text(encoding="utf-8") == text


def test_a_ratio_that_a_limit_bounds_stays_a_bound():
    assert markdown._inverse("0.5", 1) == markdown._inverse(0.5, 1) == "2.0"
    assert markdown._inverse("<0.25", 2) == "> 4.00"
    assert markdown._inverse("> 2", 2) == "< 0.50"


def test_a_page_without_a_place_for_the_table_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no table\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no table between"):
        markdown.write_speed(page)
    assert page.read_text(encoding="utf-8") == "no table\n"


def test_the_results_page_is_of_the_kept_tables(tmp_path):
    from importlib import import_module

    from benchmarks.__main__ import NAMES

    docs = {name: import_module(f"benchmarks.{name}").__doc__ for name in NAMES}
    written = markdown.write_results(docs, tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert written == markdown.PAGE.read_text(encoding="utf-8")
    headings = {markdown._anchor(line[3:]) for line in written.splitlines() if line.startswith("## ")}
    assert set(re.findall(r"\]\(#([^)]*)\)", written)) == headings
