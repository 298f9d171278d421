"""The picture of the lab for the README and the handbook.

``python tests/helpers/lab_picture.py polyopt/handbook/pictures/lab.png`` makes it.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from PIL import Image
from sklearn.datasets import make_moons

SIZE = {"width": 1240, "height": 810}
COLOURS = 192  # which keep the file small


def state():
    """What is shown: two moons, and the Relative Margin Machine."""
    X, y = make_moons(90, noise=0.2, random_state=3)
    X = np.round((X - X.mean(axis=0)) / X.std(axis=0), 3)
    points = [[float(u), float(v), 2 * int(label) - 1] for (u, v), label in zip(X, y, strict=True)]
    settings = {"kernel": "rbf", "gamma": 0.5, "C": 1.0}
    return {"v": 1, "points": points, "machine": "rmm", "method": "auto", "settings": settings, "seed": 0}


def main(path: str) -> None:
    """Open the lab, point at a sample that a bound holds, and keep what is seen."""
    from helpers.lab_page import LabPage, browsing, served

    look = {"viewport": SIZE, "device_scale_factor": 1.5}
    with served(state()) as (link, _), browsing() as browser, LabPage(browser, link, **look) as lab:
        for price in (2, 1):  # the first solves import
            lab.write("C", price)
        lab.value("document.activeElement.blur()")
        prices = lab.value("__lab.picture().families.find(each => each.row === 'bound_above').multiplier")
        lab.page.mouse.move(*lab.spot(int(np.argmax(prices))))
        lab.page.wait_for_timeout(300)
        drawn = Image.open(io.BytesIO(lab.page.screenshot()))
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    drawn.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
