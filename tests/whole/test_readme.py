"""What the README and the tour show is what happens, and their figures are those that were measured."""

import re
import shutil
from pathlib import Path

import pytest
from helpers.pages import printed_by

import polyopt
from benchmarks import PAGES as NAMED
from benchmarks.helpers import pages
from benchmarks.helpers.kept import TABLES

ROOT = Path(__file__).parents[2]
PACKAGE = Path(polyopt.__path__[0])  # installed, or in the clone
README = ROOT / "README.md"
HANDBOOK = PACKAGE / "handbook"
PAGES = [
    README,
    *sorted(
        path for path in HANDBOOK.rglob("*.md") if "results" not in path.relative_to(HANDBOOK).as_posix()
    ),
    *ROOT.glob("CONTRIBUTING.md"),
    pages.FRONT,
    *pages.FRONT.parent.glob("results/pages/*.md"),
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


def test_readme_is_a_page(text):
    """Of at most 150 lines."""
    assert len(text.splitlines()) <= 150


def test_readme_example_prints_what_it_shows(text):
    """But for numbers with a decimal point."""
    shown = re.search(r"The last two print:\n\n```\n(.*?)```", text, re.S).group(1).splitlines()
    without_numbers = [re.sub(r"-?\d+\.\d+", "number", line) for line in shown]
    printed = [re.sub(r"-?\d+\.\d+", "number", line) for line in printed_by(text, README)]
    assert printed[-len(shown) :] == without_numbers


def test_tour_prints_what_it_shows(tour):
    """Rows and verdicts of the certificate are printed."""
    lines = printed_by(tour, HANDBOOK / "tour.md")
    shown = re.search(r"The certificate it prints:\n\n```\n(.*?)```", tour, re.S).group(1).splitlines()
    assert {what_matters(line) for line in shown} <= {what_matters(line) for line in lines}
    assert re.search(r"not optimal: `(.*?)`", tour).group(1) in lines


def test_page_on_probabilities_is_right():
    """Its log loss is below 0.55."""
    lines = printed_by((HANDBOOK / "probabilities.md").read_text(encoding="utf-8"), "probabilities.md")
    assert float(lines[0]) < 0.55
    assert lines[-1].startswith("Within")


def test_conformal_sets_hold_labels():
    """Sets asked to hold 0.9 of the labels hold more than 0.85."""
    pytest.importorskip("mapie")
    [line] = printed_by((HANDBOOK / "conformal.md").read_text(encoding="utf-8"), "conformal.md")
    assert float(line[:4]) > 0.85  # of 231 sets, 0.9 being asked for


@pytest.mark.parametrize("path", PAGES)
def test_named_files_exist(path):
    """Every relative link of a page leads to a file."""
    for name in re.findall(r"\]\((?!http|#)([^)]+)\)", path.read_text(encoding="utf-8")):
        name = name.partition("#")[0]
        inside = name.removeprefix("polyopt/")
        assert (PACKAGE / inside if inside != name else path.parent / name).exists(), name


# -- figures -------------------------------------------------------------------------------------------


def test_readme_table_is_of_kept_tables(tmp_path, text):
    """Written anew from the kept tables, the README is the same."""
    copy = Path(shutil.copy(README, tmp_path))
    copy.write_text(text.replace("| Times faster |", "| Times |"), encoding="utf-8")
    pages.write_speed(copy)
    assert copy.read_text(encoding="utf-8") == text
    copy.write_text("no table\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no table between"):
        pages.write_speed(copy)


def test_bounded_ratio_stays_a_bound():
    """The inverse of "at most" is "at least"."""
    assert pages.inverse("0.5", 1) == pages.inverse(0.5, 1) == "2.0"
    assert pages.inverse("<0.25", 2) == "> 4.00"
    assert pages.inverse("> 2", 2) == "< 0.50"


def test_results_are_of_kept_tables(tmp_path):
    """Written anew from the kept tables, each page is the same."""
    written = pages.write_results(tmp_path / "RESULTS.md")
    kept = [pages.FRONT.parent / path.relative_to(tmp_path) for path in written]
    assert {*pages.FRONT.parent.glob("results/pages/*.md")} == {*kept[1:]}
    for new, old in zip(written, kept, strict=True):
        assert new.read_text(encoding="utf-8") == old.read_text(encoding="utf-8"), old


def test_kept_tables_have_a_place():
    """Each kept table is named once, and each named one is kept."""
    named = [name for _, names in NAMED.values() for name in names]
    assert len(named) == len(set(named))
    assert {path.stem for path in TABLES.glob("*.csv")} == {*named}
