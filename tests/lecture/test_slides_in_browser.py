"""The slides as a browser shows them: turned by keys, on a phone, in the dark, printed, loading nothing."""

import base64
import re

import pytest

pytest.importorskip("mdit_py_plugins", reason="what reads the chapters is not installed")
CHAPTER = """# Slides

By nobody.

## First

{words}

$$\\sum_i x_i$$

## Second

A table and code that are wide:

| a | b | c |
|---|---|---|
| {long} | {long} | {long} |

```python
print("{long}{long}")
```

## Third

```{{program}} rmm.qcqp_dual
```
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    from polyopt.lecture.figures import Picture
    from polyopt.lecture.slides import slide_page
    from polyopt.plots.figure import new_figure

    figure = new_figure(9.0, 3.0)
    figure.add_subplot().plot([0, 1], [0, 1])
    words = "\n\n".join(
        f"Paragraph {i} goes on for as long as a line of a slide may be, and no more." for i in range(30)
    )
    text = CHAPTER.format(words=words, long="word and " * 12)
    path = tmp_path_factory.mktemp("slides") / "slides.html"
    path.write_text(slide_page(text, [Picture("p", "Picture", "Of a line.", figure)], {}), encoding="utf-8")
    return path


SHOWN = """[...document.querySelectorAll('.slide')].filter(s => getComputedStyle(s).visibility === 'visible')
    .map(s => s.querySelector('h1, h2').innerText)"""
BOXES = """[...document.querySelectorAll('.slide .body')].map(b =>
    [b.scrollHeight - b.clientHeight, b.scrollWidth - b.clientWidth])"""


def press(browser, key):
    browser.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
    browser.ask("Input.dispatchKeyEvent", type="keyUp", key=key)


def test_keys_turn_slides(browser, page):
    """Keys, a button and a swipe turn the slides, and n opens the notes."""
    browser.open(page)
    count = browser.value("document.querySelectorAll('.slide').length")
    assert count >= 6
    assert browser.value(SHOWN) == ["Slides"]
    for key, number in (
        ("ArrowRight", 2), (" ", 3), ("PageDown", 4), ("ArrowLeft", 3), ("End", count), ("ArrowRight", count),
        ("Home", 1), ("ArrowUp", 1),
    ):  # fmt: skip
        press(browser, key)
        assert browser.value("location.hash") == f"#{number}", key
        assert browser.value("document.querySelector('output').value") == f"{number} / {count}"
        assert len(browser.value(SHOWN)) == 1
    browser.value("document.querySelector('[data-step=\"1\"]').click()")
    assert browser.value("location.hash") == "#2"
    swipe = "new Touch({identifier: 1, target: document.body, clientX: %d, clientY: 300})"
    for kind, x in (("touchstart", 600), ("touchend", 300)):
        touch = swipe % x
        browser.value(
            f"dispatchEvent(new TouchEvent('{kind}', {{touches: [{touch}], changedTouches: [{touch}]}}))"
        )
    assert browser.value("location.hash") == "#3"
    assert not browser.value("document.body.classList.contains('notes-open')")
    press(browser, "n")
    assert browser.value("document.querySelector('[data-notes]').getAttribute('aria-pressed')") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_is_on_its_slide(browser, page, scheme):
    """Nothing leaves its slide, nothing is loaded, and paper and ink are those of the scheme."""
    browser.open(page, scheme=scheme)
    assert all(down <= 1 and right <= 1 for down, right in browser.value(BOXES))
    fits = browser.value(
        "[...document.querySelectorAll('.slide')].map(s => +s.style.getPropertyValue('--fit'))"
    )
    assert all(0.5 < fit <= 1 for fit in fits)
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []
    assert browser.complaints() == []
    paper, ink = (
        browser.value(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
    )
    lights = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
    assert (lights[0] > lights[1]) == (scheme == "light")


def test_phone_shows_all_slides(browser, page):
    """A phone shows all slides below each other."""
    browser.open(page, width=390)
    assert len(browser.value(SHOWN)) == browser.value("document.querySelectorAll('.slide').length")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    assert browser.value("document.documentElement.scrollHeight") > 2000


def test_each_slide_is_a_printed_page(browser, page):
    """Each slide is printed on a page."""
    browser.open(page)
    count = browser.value("document.querySelectorAll('.slide').length")
    browser.ask("Emulation.setEmulatedMedia", media="")
    pdf = base64.b64decode(browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert len(re.findall(rb"/Type\s*/Page[^s]", pdf)) == count
