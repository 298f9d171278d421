"""Random actions in the lab, each followed by a look at what the page says.

``python tests/helpers/monkey.py --actions 1000 --seed 3`` plays them, and prints what went wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from helpers.lab_page import LabPage

PATIENCE = 3.0  # seconds that something may take before it is stopped


class Monkey:
    """Plays in an open lab.

    Parameters
    ----------
    lab : LabPage
        The lab.
    seed : int
        Of what it does.
    machines : tuple of str
        The machines that it plays with; all where none is named.
    """

    def __init__(self, lab: LabPage, seed: int, machines: tuple[str, ...] = ()):
        self.lab, self.page, self.random, self.machines = lab, lab.page, Random(seed), machines
        self.done: list[str] = []
        self.actions = {
            self.drag: 6, self.draw: 4, self.flip: 2, self.delete: 2, self.key: 5, self.slide: 5,
            self.write: 3, self.choose: 3, self.machine: 2, self.load: 1, self.undo: 3, self.zoom: 2,
            self.trace: 1, self.film: 0.5, self.program: 1, self.theme: 0.5, self.share: 0.5, self.hurry: 2,
            self.clear: 0.3, self.size: 0.5,
        }  # fmt: skip

    def play(self, actions: int, looks: int = 5) -> None:
        """Some actions; every few of them, and at the end, the page is looked at."""
        for number in range(1, actions + 1):
            action = self.random.choices(list(self.actions), self.actions.values())[0]
            self.done.append(f"{action.__name__} {action() or ''}".strip())
            if number % looks == 0 or number == actions:
                self.look()
        self.settle()

    def look(self) -> None:
        """Wait for the picture, and compare what is shown with the certificate."""
        self.settle()
        told = [*self.lab.contradictions(), *self.lab.complaints]
        state, picture = self.lab.state(), self.lab.value("__lab.picture()?.state ?? null")
        if picture is not None and picture["points"] != state["points"]:
            told.append("the picture is of other samples")
        shown = self.page.locator(".sample").count()
        if shown != len(state["points"]):
            told.append(f"{shown} samples are shown of {len(state['points'])}")
        if told:
            raise AssertionError(f"after {self.done[-12:]} in {state}: {told}")

    def settle(self) -> None:
        """Wait for the answer; what takes too long is stopped."""
        answered = """new Promise(done => { let left = PATIENCE; const look = () => {
            const over = !__lab.busy() && !document.querySelector('.progress').checkVisibility();
            if (over || --left < 0) done(over); else setTimeout(look, 20); }; look(); })"""
        for _ in range(20):
            if self.lab.value(answered.replace("PATIENCE", str(int(PATIENCE / 0.02)))):
                return
            self.lab.value("document.querySelector('.progress:not([hidden]) .stop')?.click()")
        raise TimeoutError(f"no answer after {self.done[-8:]}")

    # -- actions ----------------------------------------------------------------------------------

    def some(self, selector: str) -> object | None:
        """An element that can be used, at random."""
        usable = "list => list.flatMap((each, i) => (each.checkVisibility() && !each.disabled ? [i] : []))"
        found = self.page.locator(selector)
        places = found.evaluate_all(usable)
        return found.nth(self.random.choice(places)) if places else None

    def anywhere(self) -> tuple[float, float]:
        box = self.page.locator(".frame").bounding_box()
        return tuple(
            box[at] + self.random.uniform(0.08, 0.92) * box[size]
            for at, size in (("x", "width"), ("y", "height"))
        )

    def on_sample(self) -> tuple[float, float]:
        n = self.page.locator(".sample").count()
        return self.lab.spot(self.random.randrange(n)) if n else self.anywhere()

    def tool(self, name: str) -> None:
        self.page.locator(f".tool.{name}").click()

    def drag(self) -> None:
        self.tool("move")
        self.page.mouse.move(*self.on_sample())
        self.page.mouse.down()
        for _ in range(self.random.randint(1, 5)):
            self.page.mouse.move(*self.anywhere(), steps=2)
        self.page.mouse.up()

    def draw(self) -> None:
        self.tool(self.random.choice(["positive", "negative"]))
        self.page.locator(".plane").scroll_into_view_if_needed()
        self.page.mouse.move(*self.anywhere())
        self.page.mouse.down()
        if self.random.random() < 0.3:
            self.page.mouse.move(*self.anywhere(), steps=3)
        self.page.mouse.up()

    def flip(self) -> None:
        self.tool("flip")
        self.page.mouse.click(*self.on_sample())

    def delete(self) -> None:
        self.tool("delete")
        for _ in range(self.random.choice([1, 1, 1, 8])):
            self.page.mouse.click(*self.on_sample())

    def key(self) -> str:
        node = self.some(".sample") or self.page.locator(".frame")
        node.focus()
        keys = ["ArrowLeft", "ArrowUp", "Shift+ArrowDown", "f", "n", "Delete", "Escape", "Tab", "Control+z"]
        pressed = self.random.choices(keys, k=self.random.randint(1, 4))
        for each in pressed:
            self.page.keyboard.press(each)
        return " ".join(pressed)

    def slide(self) -> str:
        slider = self.some(".controls input[type=range]")
        if slider is None:
            return ""
        press = self.random.choices(
            ["ArrowRight", "ArrowLeft", "PageUp", "PageDown", "Home", "End"], [4, 4, 3, 3, 1, 1], k=3
        )
        for each in press:
            slider.press(each)
        return f"{slider.get_attribute('aria-label')} {press}"

    def write(self) -> str:
        box = self.some(".controls input[type=number]")
        if box is None:
            return ""
        text = self.random.choice(["1", "3", "0.02", "250", "-1", "1e9", "", "2.5", "7"])
        box.fill(text)
        box.press("Enter")
        box.press("Tab")
        return f"{box.get_attribute('id')} {text}"

    def choose(self) -> str:
        control = self.some(
            ".controls .settings select, [data-field='method'] select, .controls input[type=checkbox]"
        )
        if control is None:
            return ""
        if control.get_attribute("type") == "checkbox":
            control.click()
            return control.get_attribute("id")
        return self.pick(control)

    def machine(self) -> str:
        return self.pick(self.page.locator("[data-field='machine'] select"), self.machines)

    def load(self) -> str:
        return self.pick(self.some(".controls [data-field='data'] select, .features select"))

    def pick(self, control: object, among: tuple[str, ...] = ()) -> str:
        values = among or control.evaluate("list => [...list.options].map(each => each.value)")
        value = self.random.choice(values)
        control.select_option(value)
        return value

    def undo(self) -> None:
        self.lab.press(self.random.choice(["undo", "undo", "redo"]))

    def zoom(self) -> None:
        self.lab.press(self.random.choice(["closer", "farther", "fit"]))

    def trace(self) -> None:
        button = self.some("[data-name='trace']")
        if button is None:
            return
        self.settle()
        button.click()
        self.settle()
        scrub = self.page.locator("[data-name='scrub']")
        if scrub.is_visible():
            for key in self.random.choices(["Home", "End", "PageUp", "ArrowRight"], k=3):
                scrub.press(key)
            self.lab.press(self.random.choice(["play", "play", "leave"]))

    def film(self) -> None:
        button = self.some("[data-name='film']")
        if button is not None:
            button.click()
            self.settle()
            shot = self.some(".shot")
            if shot is not None and self.random.random() < 0.5:
                shot.click()

    def program(self) -> None:
        summary = self.page.locator(".programs > summary")
        if summary.is_visible():
            summary.click()

    def theme(self) -> None:
        self.lab.press("theme")

    def share(self) -> None:
        self.lab.press("share")
        self.page.locator("dialog.share .close").click()

    def hurry(self) -> None:
        """Several things before there is an answer."""
        self.lab.press("farther")
        self.undo()
        self.slide()
        self.machine()
        self.lab.press("undo")

    def clear(self) -> None:
        self.lab.press("clear")

    def size(self) -> None:
        width = self.random.choice([390, 800, 1100])
        self.page.set_viewport_size({"width": width, "height": 700})


def main() -> None:
    """Play with the seed and as long as the arguments say."""
    from helpers.lab_page import LabPage, browsing, served

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with served() as (link, complaints), browsing() as browser, LabPage(browser, link) as lab:
        monkey = Monkey(lab, given.seed)
        monkey.play(given.actions)
        if complaints:
            raise SystemExit(f"the server complains: {complaints}")
    print(f"{given.actions} actions with seed {given.seed}: no error")


if __name__ == "__main__":
    main()
