"""A person's own file in the lab: by the page's file picker, and on the command line."""

import numpy as np
import pytest
from helpers.commands import refused
from helpers.lab import Client, visited_lab

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


def test_table_is_read_by_target(client):
    """A table is read by the column of classes, and scaled."""
    own = table(GOOD)
    assert client.ask("columns", table=own)["names"] == ["kind", "a", "b"]
    told = client.ask("dataset", table={**own, "target": 0}, features=None)
    assert told["axes"] == told["columns"] == ["a", "b"]
    assert told["classes"] == ["no", "yes"]
    assert [label for *_, label in told["points"]] == [1 if label == "yes" else -1 for *_, label in ROWS]
    X = np.array([[u, v] for u, v, _ in ROWS])
    wanted = (X - X.mean(axis=0)) / X.std(axis=0)
    assert np.abs(np.array(told["points"])[:, :2] - wanted).max() <= 1e-5


def test_gaps_and_texts_are_told(client):
    """Gaps are filled and texts made features, and both are told."""
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
def test_columns_are_scaled(client, factor, features):
    """Columns of any size come as points of size one."""
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
def test_bad_table_is_named(client, told, text):
    """A table that cannot be shown is named in a short sentence."""
    answer = client.ask("dataset", table=told)
    assert answer["kind"] == "error"
    assert text in answer["sentence"]
    assert len(answer["sentence"]) < 400
    assert "\x1b" not in answer["sentence"]


def test_command_begins_with_file(tmp_path):
    """The command begins with the points of a file; wrong points or a target without a file are told."""
    path = tmp_path / "mine.csv"
    path.write_text(GOOD)
    done = visited_lab("--no-browser", "--points", path, "--target", "kind")
    assert done.exit_code == 0
    assert "The lab has ended." in done.output
    for line, text in (
        (("--points", path), "12 classes"),
        (("--points", "no-such"), "neither a file nor"),
        (("--points", "blobs", "--target", "1"), "column of a file"),
        (("--target", "1"), "column of a file"),
    ):
        assert text in refused("lab", "--no-browser", "--port", 0, *line)
