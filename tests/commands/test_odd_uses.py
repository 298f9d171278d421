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


@pytest.mark.parametrize(("rows", "expected"), [(3, 0), (60, 1)])
def test_a_table_of_few_long_rows_is_not_read_by_columns(tmp_path, monkeypatch, rows, expected):
    import pandas as pd

    original, calls = pd.read_csv, []
    monkeypatch.setattr(pd, "read_csv", lambda *what, **how: calls.append(1) or original(*what, **how))
    path = tmp_path / "wide.csv"
    path.write_text("".join(f"{'1.25,' * 1999}{k},{'ab'[k % 2]}\n" for k in range(rows)), encoding="utf-8")
    found = read_csv(path)
    assert len(calls) == expected
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
        more = ("--large", "--set", "n_init=1", "--solver", "fast", "--set", "max_iter=1", "--quiet")
        worked("fit", table, "--method", "cpm", "--faces", 31, *more)
