"""The page of a comparison in a browser: aligned contents, and a table that fits."""

from __future__ import annotations

import pytest
from helpers.browser import find_browser

from formulations.language.toy_data import two_blobs
from polyopt.compare import compare
from polyopt.datasets import Dataset
from polyopt.report import write_report

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")

# Left edge and top of each link of the contents, and whether it is of a part of a section.
LINKS = """[...document.querySelectorAll('nav a')].map(each => {
    const box = each.getBoundingClientRect();
    return [Math.round(box.left), Math.round(box.top), each.closest('ul ul') !== null]; })"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    X, y = two_blobs(20, 3, 0)
    sets = [Dataset(name, X, y, target_names=("no", "yes")) for name in ("first", "second", "third")]
    return write_report(compare(sets, ["svm", "rmm"]), tmp_path_factory.mktemp("report") / "r.html")


@pytest.mark.parametrize("width", [1200, 390])
def test_sections_of_the_contents_are_aligned(browser, report, width):
    """Sections beside each other begin on one line, and every part stands under its own section."""
    browser.open(report, width=width)
    section, tops = (0, 0), []
    for left, top, is_part in browser.value(LINKS):
        if is_part:
            assert top > section[1]
            assert section[0] < left < section[0] + 40
        else:
            section = (left, top)
            tops.append(top)
    assert len(set(tops)) == (len(tops) if width == 390 else 2)


def test_the_table_fits_a_wide_page(browser, report):
    """At 1200 px no column of the table is cut."""
    browser.open(report, width=1200)
    boxes = "[...document.querySelectorAll('.scroll:has(.comparison)')]"
    assert browser.value(f"{boxes}.every(each => each.scrollWidth <= each.clientWidth)")
