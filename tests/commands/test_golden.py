"""The output of each command, compared with a file; POLYOPT_GOLDEN=1 writes the files anew."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import worked, write
from helpers.pages import differences

FOLDER = Path(__file__).parent / "golden"
COMMANDS = {
    "compare": "compare --data DATA --methods svm,spla1 --set n_init=1 --faces 2",
    "show": "show rmm.qp",
    "duals": "duals --data DATA --method rmm --B 1.5 --top 2",
    "fit": "fit DATA --method rmm --C 0.5 --B 1.5",
    "predict": "predict MODEL FEW",
    "rules": "rules MODEL",
    "explain": "explain MODEL DATA --row 3",
    "lecture": "lecture",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of two classes, a part of it, and a polytope machine that was fitted to it."""
    folder, rng = tmp_path_factory.mktemp("golden"), np.random.default_rng(0)
    X = rng.normal(size=(32, 2)).round(3) + 1.5 * np.repeat([0, 1], 16)[:, None]
    rows = [[*map(float, x), "ab"[i // 16]] for i, x in enumerate(X)]
    data = write(folder / "data.csv", ["u", "v", "answer"], *rows)
    few = write(folder / "few.csv", ["u", "v", "answer"], *rows[::8])
    model = folder / "model.skops"
    worked("fit", data, "--method", "spla1", "--faces", 2, "--set", "n_init=1", "--out", model)
    return {"DATA": data, "FEW": few, "MODEL": model}


def normal(text, files):
    """The text without what differs between machines: folders, seconds, rounding and its place."""
    text = text.replace(f"{files['DATA'].parent}/", "")
    text = text.partition("The model says")[0]  # on which side of the boundary its nearest point is rounded
    text = re.sub(r"(?<!to )[−-]?\d+(\.\d+)?e(-(0[5-9]|1\d)|\+00)\b", "tiny", text)
    text = re.sub(r"(tiny +)+(?!│)([a-zW]\w*(\(\w+ \d+\))?(\[\d+\])?)", "tiny … ", text)
    text = re.sub(r"tiny │ +(\d+|–) ", "tiny │ … ", text)
    text = re.sub(r"(?<=\d\.\d) \d+\.\d\d$", " …", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_golden(name, files):
    """A command prints the words of its file, and its numbers to a unit in the last digit."""
    words = [files.get(word, word) for word in COMMANDS[name].split()]
    found, path = normal(worked(*words, width=100), files), FOLDER / f"{name}.txt"
    if os.environ.get("POLYOPT_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert differences(path.read_text(encoding="utf-8"), found) == []
