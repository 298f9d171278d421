"""`polyopt explain`: tables of numbers and texts, in the table's own columns; bad input in a sentence."""

import json

import numpy as np
import pytest
from helpers.commands import refused, worked

from polyopt.models import load_model


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A table with a column of texts, and a machine with one-hot encoding and scaling on it."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(0)
    size, price, colour = rng.normal(10, 3, 80), rng.normal(100, 20, 80), rng.integers(0, 3, 80)
    y = (np.abs(size - 10) / 3 + (price - 100) / 20 + (colour == 1) > 1.0).astype(int)
    lines = [
        f"{a!r},{b!r},{['red', 'green', 'blue'][c]},{'no' if label else 'yes'}"
        for a, b, c, label in zip(size.tolist(), price.tolist(), colour, y, strict=True)
    ]
    data, model = folder / "shop.csv", folder / "shop.skops"
    data.write_text("\n".join(["size,price,colour,bought", *lines]) + "\n", encoding="utf-8")
    worked("fit", data, "--categorical", "colour", "--method", "spla1", "--set", "n_init=1", "--out", model)
    return data, model, lines


def test_row_is_explained_in_columns(shop):
    """Terms and the nearest other point are in the columns of the table, texts included."""
    data, model, lines = shop
    machine = load_model(model)
    for row in (0, 5, 11):
        found = json.loads(worked("explain", model, data, "--row", row, "--json"))
        cells = lines[row].split(",")
        values = {term["column"]: term["value"] for term in found["terms"]}
        assert values["colour"] == cells[2]
        assert values["size"] == pytest.approx(float(cells[0]))
        here = np.array([[float(cells[0]), float(cells[1]), cells[2]]], dtype=object)
        assert str(machine.predict(here)[0]) == found["label"]
        after = {change["column"]: change["after"] for change in found["nearest"]["changes"]}
        assert after.get("colour", "red") in ("red", "green", "blue")
        point = found["nearest"]["crossing"]
        assert sorted(point[2:]) == [0.0, 0.0, 1.0]
        text = machine.preparation.named_transformers_["text"].categories_[0][int(np.argmax(point[2:]))]
        there = np.array([[point[0], point[1], text]], dtype=object)
        assert str(machine.predict(there)[0]) == found["other"] != found["label"]


def test_held_columns_do_not_change(shop):
    """A column that is held changes in no feature that was made of it."""
    data, model, _lines = shop
    text = worked("explain", model, data, "--row", 3, "--hold", "colour", "--hold", "size")
    assert max(map(len, text.split("\n"))) <= 80
    changes = text[text.index("what changes") :]
    assert "price" in changes
    assert "colour" not in changes
    assert "size" not in changes


def test_model_is_explained(shop):
    """Without a row the shares of the columns add up to 1."""
    data, model, _ = shop
    assert "1 other" in worked("explain", model, data, "--row", 1, "--top", 2)
    whole = json.loads(worked("explain", model, data, "--json"))
    assert {one["feature"] for one in whole["shares"]} == {"size", "price", "colour"}
    assert sum(one["share"] for one in whole["shares"]) == pytest.approx(1.0)
    assert whole["error"] < 0.3
    assert "Features by their share" in worked("explain", model, data)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--row", 80), "--row 80: the data have 80 rows, counted from 0"),
        (("--row", 1, "--hold", "weight"), "no feature 'weight' to hold; there are size, price, colour"),
        (("--hold", "size"), "--hold is about a row: say which by --row"),
        (("--row", -1), "Invalid value for '--row'"),
    ],
)
def test_bad_row_is_told(shop, options, sentence):
    """A row or a column that is not there is told in a sentence."""
    data, model, _ = shop
    assert sentence in refused("explain", model, data, *options)


def test_machine_without_faces_is_refused(shop, tmp_path):
    """A machine without faces has no explanation."""
    data, _, _ = shop
    other = tmp_path / "svm.skops"
    worked("fit", data, "--categorical", "colour", "--method", "svm", "--solver", "exact", "--out", other)
    assert "it is a model of svm; rules are of a polytope" in refused("explain", other, data)
