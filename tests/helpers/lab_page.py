"""The lab in a browser: the real server in a thread, and its page with what a person does there."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from helpers.chromium import FLAGS, find_browser, fragment

TOKEN = "browser-tests"
PATIENCE = 60.0  # seconds that an answer may take
READY = "Boolean(window.__lab && document.querySelector('.polyopt-lab')?.dataset.ready && !__lab.busy())"
# What stands out of the page, but for what is in a box that scrolls or is cut.
SPILLS = """[...document.querySelectorAll('body *')].filter(each => each.checkVisibility()
    && !each.closest('.scroll, svg.plane, .formula, pre, .spoken, .probe')
    && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 90))"""


def why_not() -> str:
    """Why no browser can be driven here; empty where one can."""
    if find_browser() is None:
        return "no Chromium is installed"
    missing = [name for name in ("playwright", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: pip install 'polyopt[lab,browser]'"
    return ""


@contextmanager
def served(begin: dict[str, Any] | None = None) -> Iterator[tuple[str, list[str]]]:
    """The lab's server: its link, and what it complains of."""
    import uvicorn

    from polyopt.lab import server
    from polyopt.lab.sets import beginning

    kept: list[uvicorn.Server] = []

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config):
            super().__init__(config)
            kept.append(self)

    complaints: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: complaints.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("", "uvicorn.error")]
    hook, threading.excepthook = threading.excepthook, lambda told: complaints.append(repr(told))
    listening = server.listening_socket(0)
    port = listening.getsockname()[1]
    app = server.lab_app(port, TOKEN, beginning() if begin is None else begin)
    own, uvicorn.Server = uvicorn.Server, Kept
    thread = threading.Thread(target=server.serve, args=(app, listening), daemon=True)
    try:
        thread.start()
        while not (kept and kept[0].started):
            time.sleep(0.01)
        for logger in loggers:  # its own settings of the log are made by now
            logger.addHandler(handler)
        yield f"http://127.0.0.1:{port}/?token={TOKEN}", complaints
    finally:
        uvicorn.Server = own
        for one in kept:
            one.should_exit = True
        thread.join(10)
        threading.excepthook = hook
        for logger in loggers:
            logger.removeHandler(handler)


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class LabPage:
    """One open lab: by a link with its token, and a fragment as of a shared link."""

    def __init__(self, browser: Any, link: str, fragment: str = "", **context: Any):
        context.setdefault("viewport", {"width": 1100, "height": 700})
        context.setdefault("reduced_motion", "reduce")
        self.context = browser.new_context(accept_downloads=True, **context)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.answers: list[str] = []  # what the engine refused
        self.page.on("console", lambda one: self.complaints.append(f"{one.type}: {one.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"thrown: {error}"))
        self.page.on("requestfailed", lambda one: self.complaints.append(f"failed: {one.url}"))
        self.requests: list[str] = []
        self.page.on("request", lambda one: self.requests.append(one.url))
        self.page.goto(link + (f"#{fragment}" if fragment else ""))
        self.ready()
        self.first = self.state()

    def __enter__(self) -> LabPage:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def ready(self) -> None:
        """Wait until nothing is asked for any more."""
        self.until(READY)

    def again(self) -> None:
        """Back to the state that the page was opened with, by its link."""
        self.value("document.querySelectorAll('details[open]').forEach(each => { each.open = false; })")
        self.page.locator(".tool.move").click()
        self.follow(fragment(self.first))
        self.until(f"JSON.stringify(__lab.state()) === JSON.stringify({json.dumps(self.first)})")
        self.ready()

    def follow(self, text: str) -> None:
        """Put another state into the address, even where the address still has the same."""
        self.value(f"history.replaceState(null, '', location.pathname), location.hash = '#{text}'")

    def until(self, expression: str) -> Any:
        """Wait until an expression of JavaScript is true; what it is then.

        The page itself looks again and again: its policy forbids playwright's own way.
        """
        found = self.page.evaluate(
            f"""new Promise(done => {{
            const end = Date.now() + {1000 * PATIENCE}, look = () => {{
                const found = {expression};
                if (found || Date.now() > end) done(found); else setTimeout(look, 10);
            }};
            look(); }})"""
        )
        if not found:
            shown = self.page.locator(".trouble, .told").all_inner_texts()
            raise TimeoutError(f"{expression} is not true; the page says {shown}, {self.complaints}")
        return found

    def value(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def state(self) -> dict[str, Any]:
        return self.value("__lab.state()")

    def certificate(self) -> dict[str, Any] | None:
        return self.value("__lab.picture()?.certificate ?? null")

    def text(self, name: str) -> str:
        return self.page.locator(f"[data-name='{name}']").first.inner_text()

    def number(self, name: str) -> float | None:
        return as_number(self.text(name))

    def sample(self, place: int) -> Any:
        return self.page.locator(".sample").nth(place)

    def spot(self, place: int) -> tuple[float, float]:
        """Where a sample lies on the screen."""
        self.page.locator(".plane").scroll_into_view_if_needed()
        x, y = self.value(
            f"""(() => {{ const node = document.querySelectorAll('.sample')[{place}],
            box = node.querySelector('.near').getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2]; }})()"""
        )
        return x, y

    def drag(self, place: int, across: float, down: float, steps: int = 4) -> None:
        """Drag a sample by pixels."""
        x, y = self.spot(place)
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + across, y + down, steps=steps)
        self.page.mouse.up()
        self.ready()

    def choose(self, field: str, value: str) -> None:
        """Choose an entry of a list."""
        self.page.locator(f"[data-field='{field}'] select").select_option(value)
        self.ready()

    def write(self, field: str, value: float | str) -> None:
        """Write a number into its box."""
        box = self.page.locator(f"[data-field='{field}'] input[type=number]")
        box.fill(str(value))
        box.press("Tab")
        self.ready()

    def press(self, name: str) -> None:
        """Press a button by its name."""
        self.page.locator(f"button[data-name='{name}']").first.click()

    def contradictions(self) -> list[str]:
        """What the numbers on the page say against the certificate, or against each other."""
        found, told = [], self.certificate()
        shown = {name: self.number(name) for name in ("primal", "dual", "gap")}
        if told is None:
            return [
                f"{name} is {value} without a certificate"
                for name, value in shown.items()
                if value is not None
            ]
        for name, key in (("primal", "primal_value"), ("dual", "dual_value"), ("gap", "gap")):
            if not same(shown[name], told[key], 1e-2 if name == "gap" else 1e-5):
                found.append(f"{name} is shown as {shown[name]}, and is {told[key]}")
        primal, dual, gap, fine = (told[key] for key in ("primal_value", "dual_value", "gap", "rounding"))
        if gap is not None and gap < 0:
            found.append(f"the gap is {gap}")
        if primal is not None and dual is not None and primal < dual - (fine or 0.0) - 1e-9 * abs(dual):
            found.append(f"the value {primal} is below the bound {dual}")
        relative = told["relative_gap"]
        if told["claim"] == "optimal" and relative is not None and relative > told["tol"]:
            found.append(f"optimal with a relative gap of {relative}")
        if self.text("sentence") != told["sentence"]:
            found.append(f"the page says {self.text('sentence')!r}, the certificate {told['sentence']!r}")
        return found


_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")


def as_number(text: str) -> float | None:
    """The number that a text begins with, as the lab writes numbers."""
    first = text.split(" (")[0].strip().translate(_POWERS)
    if first in ("–", ""):
        return None
    mantissa, ten, power = first.partition("·10")
    return (
        float(mantissa.replace("∞", "inf")) * 10.0 ** int(power)
        if ten
        else float(mantissa.replace("∞", "inf"))
    )


def same(shown: float | None, told: float | None, share: float) -> bool:
    """Whether a number that is shown in some digits is the one that was told."""
    if shown is None or told is None:
        return shown is told
    return abs(shown - told) <= share * abs(told)
