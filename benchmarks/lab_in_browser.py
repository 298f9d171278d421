"""The lab in a browser: from the pointer's move to the painted picture, at 200 points.

``polyopt lab`` runs as a person starts it, Chromium opens its page without a window, 1,100 by 700 pixels,
and a point is dragged in 40 moves, each after the picture of the move before it. The page itself measures,
from the pointer's event to the end of the drawing that shows the new machine, its certificate and every
point's multipliers. Milliseconds are by the clock on the wall, so other work on the machine counts; the
browser draws by the processor, without a graphics card. "At the engine" is the median part of solve,
certificate and grid. The bar is 80 milliseconds for the convex machines. It needs ``pip install
'polyopt[lab,browser]'`` and an installed Chromium; without them it says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.chromium import FLAGS, find_browser, fragment
from benchmarks.helpers.timing import spread_of
from benchmarks.lab_latency import MACHINES, points_of

_POINTS, _MOVES, _FIRST = 200, 40, 3  # moves that are timed, and those before them, which compile
_IDLE = "window.__lab && document.querySelector('.polyopt-lab')?.dataset.ready && !__lab.busy()"
# The page looks by itself, again and again: its policy forbids playwright's own way.
_UNTIL = """() => new Promise((done, fail) => {
    const end = Date.now() + 60000, look = () => {
        if (%s) done(true);
        else if (Date.now() > end) fail(new Error('the page does not answer'));
        else setTimeout(look, 5);
    };
    look(); })"""
_SPOT = """() => { const box = document.querySelector('.sample .near').getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2]; }"""


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per machine, or one that says what is missing."""
    missing = _missing()
    if missing:
        return pd.DataFrame([{"machine": "", "note": missing}])
    from playwright.sync_api import sync_playwright

    count, moves = (20, 2) if smoke else (_POINTS, _MOVES)
    names = list(MACHINES)[:1] if smoke else list(MACHINES)
    with _served() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1100, "height": 700})
        context.new_page().goto(link)  # the first visit brings the cookie
        rows = [_row(context, link.split("?")[0], name, count, moves) for name in names]
        browser.close()
    return pd.DataFrame(rows)


def _missing() -> str:
    """What is not installed; empty where all is."""
    names = [name for name in ("playwright", "starlette", "uvicorn") if find_spec(name) is None]
    if names:
        return f"not run: {' and '.join(names)} not installed: pip install 'polyopt[lab,browser]'"
    return "" if find_browser() else "not run: no Chromium is installed"


@contextmanager
def _served() -> Iterator[str]:
    """The lab as its command starts it, in a process of its own: its link."""
    command = [sys.executable, "-m", "polyopt", "lab", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told: list[str] = []
    try:
        for line in process.stdout or ():
            told.append(line)
            found = re.search(r"http://\S+", line)
            if found:
                yield found[0]
                return
        raise RuntimeError(f"the lab does not start: {''.join(told)}")
    finally:
        process.terminate()
        process.wait(30)


def _row(context: Any, home: str, name: str, count: int, moves: int) -> dict[str, Any]:
    machine, settings = MACHINES[name]
    state = {"v": 1, "machine": machine, "settings": settings, "seed": 0, "method": "auto"}
    state["points"] = points_of(count)
    page = context.new_page()
    page.goto(f"{home}#{fragment(state)}")
    page.evaluate(_UNTIL % _IDLE)
    x, y = page.evaluate(_SPOT)
    page.mouse.move(x, y)
    page.mouse.down()
    generator = np.random.default_rng(1)
    for move in range(-_FIRST, moves):
        if move == 0:
            page.evaluate("() => { __lab.timings.length = 0; }")
        x, y = x + generator.normal(scale=6.0), y + generator.normal(scale=6.0)
        shown = page.evaluate("() => __lab.timings.length")
        page.mouse.move(x, y)
        page.evaluate(_UNTIL % f"__lab.timings.length > {shown}")
    timings = page.evaluate("() => __lab.timings")
    claim = page.evaluate("() => __lab.picture().certificate.claim")
    page.mouse.up()
    page.close()
    ms, engine = (np.array([one[key] for one in timings]) for key in ("ms", "engine_ms"))
    return {
        "machine": name,
        **spread_of(ms),
        "at the engine": float(np.median(engine)),
        "pictures": len(timings),
        "claim at the end": claim,
    }
