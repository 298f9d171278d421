"""Odd uses of the commands: each is answered in a sentence, or done right."""

from __future__ import annotations

import os
import threading

import pytest
from helpers.commands import run, small_table, worked

from polyopt.datasets import read_csv


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    return done.stderr.strip()


def test_what_can_be_read_once_is_named_once(tmp_path):
    said = "standard input can be read once, and --data names it 2 times"
    assert said in refused("compare", "--data", "-", "--data", "-", "--methods", "svm")
    assert said in refused("compare", "--data", "-", "--data", "/dev/stdin", "--methods", "svm")
    table, pipe = small_table(tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)
    told = refused("compare", "--data", pipe, "--data", table, "--data", pipe, "--methods", "svm")
    assert f"the pipe {pipe} can be read once" in told
    threading.Thread(target=pipe.write_bytes, args=(table.read_bytes(),), daemon=True).start()
    worked("compare", "--data", pipe, "--data", table, "--data", table, "--methods", "svm", "-q")


def test_a_table_of_few_long_rows_is_read(tmp_path):
    path, rows = tmp_path / "wide.csv", 60
    path.write_text("".join(f"{'1.25,' * 19_999}{k},{'ab'[k % 2]}\n" for k in range(rows)), encoding="utf-8")
    found = read_csv(path)
    assert (found.X[:, :-1] == 1.25).all()
    assert found.X[:, -1].tolist() == list(range(rows))


@pytest.mark.parametrize("command", ["fit", "compare", "duals"])
def test_more_faces_than_samples_are_told_before_they_take_minutes(command, tmp_path):
    table = small_table(tmp_path)
    data = (table,) if command == "fit" else ("--data", table)
    method = "--methods" if command == "compare" else "--method"
    said = "--faces 1,000 is more than the 30 samples of table.csv"
    assert said in refused(command, *data, method, "cpm", "--faces", 1000)
    assert said in refused(command, *data, method, "cpm", "--set", "n_faces=1000")
    if command == "fit":
        more = ("--large", "--set", "n_init=1", "--solver", "exact", "--set", "max_iter=1", "--quiet")
        worked("fit", table, "--method", "cpm", "--faces", 31, *more)


# -- tables -------------------------------------------------------------------------------------------


def labelled(path, *labels):
    """A table of 24 rows whose labels are these in turn."""
    rows = "".join(f"{k * (-1) ** k},{k % 5},{labels[k % len(labels)]}\n" for k in range(24))
    path.write_text(f"u,v,y\n{rows}", encoding="utf-8")
    return path


def test_a_column_of_measurements_as_label_is_told_before_its_pairs_are_fitted(tmp_path):
    numbers = [f"{k * 0.37:.3f}" for k in range(24)]
    told = refused("fit", labelled(tmp_path / "t.csv", *numbers), "-q")
    assert "24 different labels, which make 276 pairs of classes to fit from 24 rows" in told
    assert "3 seconds. Is column 'y' that of the labels (--target)? --large goes on" in told


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.parquet", b"PAR1\xff\xfe\n", "a Parquet file"),
        ("t.npy", b"\x93NUMPY\x01\n", "an array of NumPy"),
        ("t.csv", b"y,a,b\nk,1,2\nl,3,4\n", "column 'y' (option categorical or, of the labels, target)"),
        ("t.svm", b"1\n-1\n", "no row lists a feature, and how many there are is not known\n"),
    ],
)
def test_what_a_file_may_be_instead_is_told(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    assert said in refused("fit", path, "-q") + "\n"


def test_a_model_tells_of_a_separator_and_of_a_folder(tmp_path):
    model, other = tmp_path / "m.skops", tmp_path / "o.csv"
    table = labelled(tmp_path / "t.csv", "a", "b")
    worked("fit", table, "--method", "svm", "-q", "--out", model)
    other.write_text(table.read_text().replace(",", "|"), encoding="utf-8")
    assert "; --separator says what separates them" in refused("predict", model, other)
    assert worked("predict", model, other, "--separator", "|") == worked("predict", model, table)
    assert f"{tmp_path} is a folder" in refused("info", tmp_path)
