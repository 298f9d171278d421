"""Results as a notebook shows them: readable under the stylesheets of Jupyter, VS Code and a plain page."""

from itertools import product
from pathlib import Path

import pytest

from formulations import cpm, rmm
from formulations.language.toy_data import two_blobs
from polyopt import OneNormSVM, RelativeMarginMachine, rmm_path

HELPERS = Path(__file__).parent.parent / "helpers"
HOSTS = {
    "plain": ("", "<div>"),
    "lab": (
        "jupyter_lab.css",
        "<div class='jp-OutputArea-child'>"
        "<div class='jp-OutputArea-output jp-RenderedHTMLCommon jp-RenderedHTML'>",
    ),
    "classic": ("jupyter_classic.css", "<div class='output_area'><div class='output_html rendered_html'>"),
    "vscode": ("vscode_notebook.css", "<div class='output_container'><div class='output'>"),
}
THINGS = ("program", "many rows", "solution", "certificate", "path", "point")


@pytest.fixture(scope="module")
def things():
    X, y = two_blobs(12, 2, 0)
    program = rmm.qp(X, y, B=1.5)
    path = rmm_path(X, y, bounds=[2.0, 1.5])
    machine = RelativeMarginMachine(B=1.5).fit(X, y)
    shown = {
        "program": program,
        "many rows": cpm.mixed_integer(X, y, n_faces=2, C=1.0),
        "solution": program.solve(),
        "certificate": OneNormSVM().fit(X, y).certificate(),
        "path": path,
        "point": path[1],
        "machine": machine,
    }
    return {name: thing._repr_html_() for name, thing in shown.items()}


def page(html, host, theme="light"):
    style, opening = HOSTS[host]
    css = (HELPERS / style).read_text(encoding="utf-8") if style else ""
    return (
        f"<!doctype html><html data-theme={theme}><meta charset=utf-8><style>{css}</style>"
        f"<body>{opening}{html}</body></html>"
    )


# Every text of the page: its box, its lines, whether its element cuts it, and whether a label.
TEXTS = """(() => {
  document.querySelectorAll('.polyopt details').forEach(each => { each.open = true; });
  const found = [];
  for (const each of document.querySelectorAll('.polyopt :is(p, th, td, dt, dd, li, summary)')) {
    const range = document.createRange();
    range.selectNodeContents(each);
    const text = range.getBoundingClientRect(), box = each.getBoundingClientRect();
    if (!each.textContent.trim() || !text.width) continue;
    const scroll = each.closest('details .scroll');
    if (scroll && box.bottom > scroll.getBoundingClientRect().bottom) continue;  // seen after scrolling
    found.push({ text: each.textContent, label: each.matches('th, dt, summary'),
      lines: new Set([...range.getClientRects()].map(line => Math.round(line.bottom))).size,
      scrolls: Boolean(each.closest('.scroll')),
      left: text.left, right: text.right, top: text.top, bottom: text.bottom,
      cut: text.right > box.right + 1 || text.left < box.left - 1 || text.bottom > box.bottom + 3 });
  }
  return found;
})()"""


@pytest.mark.parametrize(("host", "width"), [*product(HOSTS, [390]), ("lab", 900)])
@pytest.mark.parametrize("name", THINGS)
def test_texts_are_whole_and_apart(browser, tmp_path, things, name, host, width):
    """A label takes two lines at most; no text is cut, overlaps another, or leaves the page."""
    file = tmp_path / "page.html"
    file.write_text(page(things[name], host), encoding="utf-8")
    browser.open(file, width=width)
    texts = browser.value(TEXTS)
    assert texts
    for text in texts:
        assert not text["cut"], text
        assert text["scrolls"] or text["right"] <= width, text
        assert text["lines"] <= 2 or not text["label"], text
    for i, one in enumerate(texts):
        for other in texts[:i]:
            across = min(one["right"], other["right"]) - max(one["left"], other["left"])
            down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
            assert across <= 1 or down <= 1, (one, other)
    assert browser.value("document.scrollingElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("host", ["lab", "vscode"])
@pytest.mark.parametrize("name", ["program", "certificate"])
def test_letters_have_notebook_colour(browser, tmp_path, things, name, host, theme):
    """All letters take the notebook's colour and no row has a ground of its own, in light and dark themes."""
    file = tmp_path / "page.html"
    file.write_text(page(things[name], host, theme), encoding="utf-8")
    browser.open(file)
    inks = browser.value("""[...new Set([...document.querySelectorAll('.polyopt, .polyopt *:not(style)')]
        .map(each => getComputedStyle(each).color))]""")
    grounds = browser.value("""[...new Set([...document.querySelectorAll('.polyopt *:not(style)')]
        .map(each => getComputedStyle(each).backgroundColor))]""")
    around = browser.value("getComputedStyle(document.querySelector('.polyopt').parentElement).color")
    assert inks == [around]
    assert grounds == ["rgba(0, 0, 0, 0)"]


@pytest.mark.parametrize("width", [900, 390])
def test_machine_shows_parameters(browser, tmp_path, things, width):
    """A machine has the HTML of scikit-learn, whose table of parameters names B and its value."""
    file = tmp_path / "page.html"
    file.write_text(page(things["machine"], "lab"), encoding="utf-8")
    browser.open(file, width=width)
    assert browser.value("document.querySelector('.sk-top-container').innerText.includes('RelativeMargin')")
