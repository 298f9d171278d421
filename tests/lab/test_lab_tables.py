"""A person's own file in the lab: by the page's file picker, and on the command line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from helpers.lab import Client
from typer.testing import CliRunner

from polyopt.cli import app
from polyopt.lab.sets import MAX_TEXT

ROWS = [(0.1 * i, (-1) ** i * i, ("yes", "no")[i % 3 == 0]) for i in range(12)]
GOOD = "kind,a,b\n" + "".join(f"{label},{u:g},{v}\n" for u, v, label in ROWS)


@pytest.fixture(scope="module")
def client():
    one = Client()
    yield one
    one.engine.close()


def table(text, name="mine.csv", **more):
    return {"name": name, "text": text, **more}


def test_a_table_is_read_by_the_column_that_is_named(client):
    own = table(GOOD)
    assert client.ask("columns", table=own)["names"] == ["kind", "a", "b"]
    told = client.ask("dataset", table={**own, "target": 0}, features=None)
    assert told["axes"] == told["columns"] == ["a", "b"]
    assert told["classes"] == ["no", "yes"]
    assert [label for *_, label in told["points"]] == [1 if label == "yes" else -1 for *_, label in ROWS]
    X = np.array([[u, v] for u, v, _ in ROWS])
    wanted = (X - X.mean(axis=0)) / X.std(axis=0)
    assert np.abs(np.array(told["points"])[:, :2] - wanted).max() <= 1e-5


def test_gaps_are_filled_and_texts_made_features_and_both_are_told(client):
    text = "a,b,k\n" + "".join(f"{u:g},{'' if i == 3 else v},{k}\n" for i, (u, v, k) in enumerate(ROWS))
    assert "1 gap filled" in client.ask("dataset", table=table(text))["sentence"]
    text = "a,b,k\n" + "".join(
        f"{('red', 'blue', 'green')[i % 3]},{v},{k}\n" for i, (_, v, k) in enumerate(ROWS)
    )
    told = client.ask("dataset", table=table(text))
    assert "each text" in told["sentence"]
    assert len(told["columns"]) == 4


@pytest.mark.parametrize("factor", [1e-300, 1e-12, 1e12, 1e300])
@pytest.mark.parametrize("features", [1, 2])
def test_columns_of_any_size_come_as_points_of_size_one(client, factor, features):
    rows = [(factor * (1 + u), 1e8 + v, *(v * u for _ in range(features - 1)), k) for u, v, k in ROWS]
    told = client.ask("dataset", table=table("".join(",".join(map(str, row)) + "\n" for row in rows)))
    plane = np.array(told["points"])[:, :2]
    assert np.allclose(plane.std(axis=0), 1.0, atol=1e-4)
    assert np.allclose(plane.mean(axis=0), 0.0, atol=1e-4)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (table(GOOD), "12 classes in that column"),
        (table("a,b,k\n1,2,1\n3,4,1\n"), "1 class in that column"),
        (table("a,k\n1,1\n3,2\n"), "1 feature beside the classes"),
        (table("a,b,k\n1,inf,1\n3,4,2\n"), "not finite"),
        (table("a,b,k\n1,2\n3,4,2\n"), "line 2"),
        (table(GOOD, target=7), "7"),
        (table(GOOD, target=[1]), "place or the name"),
        (table(""), "is empty"),
        (table("\x00\x01"), "mine.csv"),
        (table("<html><body>no table</body></html>"), "mine.csv"),
        (table("1 1:2 2:x\n", "mine.svm"), "line 1"),
        (table("1," * (MAX_TEXT // 2 + 1)), "--points FILE"),
        ({"text": "1,2,3"}, "name and the text"),
        ("1,2,3", "name and the text"),
        (table(GOOD, name="../../etc/\x1b[2J" + "x" * 500, target="none"), "none"),
    ],
)
def test_a_bad_table_gets_a_sentence_that_names_it(client, told, text):
    answer = client.ask("dataset", table=told)
    assert answer["kind"] == "error"
    assert text in answer["sentence"]
    assert len(answer["sentence"]) < 400
    assert "\x1b" not in answer["sentence"]


def test_the_command_begins_with_a_file_its_axes_and_its_classes(tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text(GOOD)
    begun, command = [], sys.modules["polyopt.cli.pages"]
    monkeypatch.setattr(command, "_warm", lambda begin: None)
    monkeypatch.setattr(command, "_serve", lambda listening, begin, browser: begun.append(begin))

    def run(*given):
        return CliRunner().invoke(app, ["lab", "--no-browser", "--port", "0", *given])

    assert run("--points", str(path), "--target", "kind").exit_code == 0
    assert run("--points", "blobs").exit_code == 0
    assert begun[0]["axes"] == ["a", "b"]
    assert begun[0]["classes"] == ["no", "yes"]
    assert len(begun[0]["points"]) == 12
    for given, text in [
        (["--points", str(path)], "12 classes"),
        (["--points", "no-such"], "neither a file nor"),
        (["--points", "blobs", "--target", "1"], "column of a file"),
        (["--target", "1"], "column of a file"),
    ]:
        ran = run(*given)
        assert ran.exit_code == 2
        assert text in ran.output
