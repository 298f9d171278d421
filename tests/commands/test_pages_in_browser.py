"""Pages as a browser shows them: narrow and wide, light and dark, printed, sorted, and loading nothing."""

import re

import numpy as np
import pytest

from formulations.language.toy_data import two_blobs
from polyopt.compare import compare
from polyopt.datasets import Dataset
from polyopt.methods.programs import entries
from polyopt.report import write_report
from polyopt.report.programs import programs_page

PAGES = ("compare", "hostile", "show")
HOSTILE = (
    """<script>document.title='run'</script>'"><img src=http://x.test/a onerror=alert(1)>\x1b\u202e$x_$"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    X, y = two_blobs(24, 4)
    few = {"n_init": 1}
    for page, name, methods, settings in (
        ("compare", "blobs", ["rmm", "cpm"], few),
        ("hostile", HOSTILE, ["rmm"], None),
    ):
        data = Dataset(name, X, y, target_names=(f"_{name} no", f"{name} yes"))
        write_report(compare(data, methods, settings=settings), place / f"{page}.html")
    thirds = np.arange(len(y)) % 3  # of which no pictures are drawn
    sets = [
        Dataset(name, X, labels, target_names=tuple("abc"[: len(set(labels))]))
        for name, labels in (("first", y), ("second", thirds), ("third", thirds))
    ]
    write_report(compare(sets, ["svm", "rmm"]), place / "three.html")
    listed = entries(("rmm", "plume", "cpm"))
    text = programs_page([entry.program for entry in listed])
    (place / "show.html").write_text(text, encoding="utf-8")
    return place


# Left edge and top of each link of the contents, and whether it is of a part of a section.
LINKS = """[...document.querySelectorAll('nav a')].map(each => {
    const box = each.getBoundingClientRect();
    return [Math.round(box.left), Math.round(box.top), each.closest('ul ul') !== null]; })"""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; });"
# Elements that reach out of the page, but for what stands in a box that scrolls.
SPILLS = """[...document.querySelectorAll('body *')].filter(each => !each.closest('.scroll, section figure')
    && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_fits_phone(browser, folder, name, scheme):
    """At 390 px nothing leaves the page, closed or open; nothing is loaded or complained of."""
    path = folder / f"{name}.html"
    browser.open(path, width=390, scheme=scheme)
    for _ in range(2):
        assert browser.value("document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth")
        assert browser.value(SPILLS) == []
        browser.value(OPEN_ALL)
    own = path.as_uri()
    assert [url for url in browser.requests() if url != own and not url.startswith("data:")] == []
    assert browser.complaints() == []
    assert browser.value("[...document.links].every(each => each.getAttribute('href').startsWith('#'))")


def test_script_in_name_is_shown(browser, folder):
    """A name that is a script is text in the heading and in the legend."""
    browser.open(folder / "hostile.html")
    assert browser.value("document.title") == "polyopt: exact and fast, side by side"
    heading = browser.value("document.querySelector('h2').textContent")
    assert heading == HOSTILE.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    assert browser.value("document.images.length + document.scripts.length") == 1, "the page's own script"
    legend = browser.value("[...document.querySelectorAll('figure svg text')].map(each => each.textContent)")
    assert any(text.startswith("\u2060_<script>") for text in legend), "a class's name is left out"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_of_pictures_are_legible(browser, folder, scheme):
    """Letters of pictures have 10 px on a phone, and a contrast of 3 to the page."""
    browser.open(folder / "compare.html", width=390, scheme=scheme)
    sizes = """[...document.querySelectorAll('figure svg text[style*=font]')].map(each => {
        const box = each.ownerSVGElement, scale = box.clientWidth / box.viewBox.baseVal.width;
        return parseFloat(getComputedStyle(each).fontSize) * scale; })"""
    assert min(browser.value(sizes)) >= 10.0
    colours = browser.value("""[getComputedStyle(document.body).backgroundColor,
        ...[...document.querySelectorAll('figure svg text')].map(each => getComputedStyle(each).fill)]""")
    paper, *inks = [luminance(colour) for colour in dict.fromkeys(colours)]
    for ink in inks:
        assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) >= 3.0


def luminance(colour):
    """Relative luminance of ``rgb(r, g, b)``, as WCAG has it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


COLUMN = """[...document.querySelectorAll('table.sortable')[{table}].tBodies[0].rows]
    .filter(row => !row.classList.contains('note')).map(row => row.cells[{place}].textContent.trim())"""
HEADS = """[...document.querySelectorAll('table.sortable')].map(table =>
    [...table.tHead.rows[0].cells].map(head => [head.textContent.trim(), head.className]))"""


def as_number(text):
    found = re.match(r"-?[\d.,]+(e[-+]\d+)?", text.replace("−", "-"))
    return float(found[0].replace(",", "")) if found else None


def test_heading_sorts_table(browser, folder):
    """Enter on a heading sorts up, down and back, numbers by size with what is missing last."""
    browser.open(folder / "compare.html")
    browser.value(OPEN_ALL)
    heads = browser.value(HEADS)[:3]  # the table after these is long
    assert heads
    moved = 0
    for table, columns in enumerate(heads):
        for place, (title, kind) in enumerate(columns):
            if not title:
                continue
            column = COLUMN.format(place=place, table=table)
            head = f"document.querySelectorAll('table.sortable')[{table}].tHead.rows[0].cells[{place}]"
            before = browser.value(column)
            orders = []
            for told in ("ascending", "descending", None):
                browser.value(f"{head}.querySelector('button').focus()")
                browser.press("Enter")
                assert browser.value(f"{head}.getAttribute('aria-sort')") == told
                orders.append(browser.value(column))
            up, down, back = orders
            assert back == before
            assert sorted(up) == sorted(down) == sorted(before), "a cell is lost"
            moved += up != before
            if "text" not in kind:
                for order, backwards in ((up, False), (down, True)):
                    numbers = [as_number(text) for text in order]
                    known = [number for number in numbers if number is not None]
                    assert known == sorted(known, reverse=backwards)
                    assert numbers[: len(known)] == known, "what is missing comes last"
    assert moved


def test_link_opens_its_program(browser, folder):
    """A link of the contents opens the program that it leads to."""
    browser.open(folder / "compare.html")
    assert not browser.value("document.getElementById('program-rmm').open")
    browser.value("document.querySelector('nav a[href=\"#program-rmm\"]').click()")
    opened = "new Promise(done => setTimeout(() => done(document.getElementById('program-rmm').open), 50))"
    assert browser.value(opened)


@pytest.mark.parametrize("width", [1200, 390])
def test_contents_are_aligned(browser, folder, width):
    """Sections beside each other begin on one line, and every part stands under its own section."""
    browser.open(folder / "three.html", width=width)
    section, tops = (0, 0), []
    for left, top, is_part in browser.value(LINKS):
        if is_part:
            assert top > section[1]
            assert section[0] < left < section[0] + 40
        else:
            section = (left, top)
            tops.append(top)
    assert len(set(tops)) == (len(tops) if width == 390 else 2)


def test_table_fits_wide_page(browser, folder):
    """At 1200 px no column of the table is cut."""
    browser.open(folder / "three.html", width=1200)
    boxes = "[...document.querySelectorAll('.scroll:has(.comparison)')]"
    assert browser.value(f"{boxes}.every(each => each.scrollWidth <= each.clientWidth)")
