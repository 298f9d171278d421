"""The chapters on the papers: what they cite is there, and their verdicts are of the tables."""

import ast
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.__main__ import NAMES
from benchmarks.papers import CHAPTERS, chapter, cpm, cross_entropy, polyceptron, rmm

ROOT = Path(__file__).parents[2]
LINES = [line for each in CHAPTERS.values() for line in (*each.claims, *each.items)]
WORDS = ("yes", "partly", "no")
VERDICTS = {*WORDS, *(f"{word}, by a test" for word in WORDS), "not computed", "not shown"}


@cache
def functions(name: str) -> set[str]:
    """The tests of a file."""
    (file,) = [*(ROOT / "tests").rglob(name), *Path(__file__).parent.glob(name)]
    return {
        node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("line", LINES)
def test_cited_proofs_exist(line):
    """A test where it is the proof, and a benchmark where figures are."""
    if line.seen is None:
        file, _, function = line.by.partition("::")
        assert function in functions(file)
    else:
        assert line.by in NAMES


@pytest.mark.parametrize("each", CHAPTERS.values(), ids=lambda each: each.title)
def test_claims_have_verdict_and_figures(each):
    """Every claim has a verdict, with figures or a test behind it."""
    claims, items = each.tables()
    assert {*claims["seen"]} <= VERDICTS
    assert claims["what we find"][~claims["seen"].str.contains("by a test")].str.endswith(".").all()
    assert (claims["what we find"][claims["seen"].str.contains("no|partly")] != "").all()
    assert (items["state"] != "").all()


def table(**columns):
    return lambda name: pd.DataFrame(columns)


RUNS = {
    "faces": [1, 2, 5],
    "deviation": 0.08,
    "runs": 4,
}  # two standard errors of a difference: 0.113
STEPS = {
    "faces": [2, 2, 5, 5], "steps": [1, 2, 1, 2], "mean error, %": [3.0, 2.0, 3.0, 2.0],
    "deviation": 0.1, "runs": 4,
}  # fmt: skip
RISES = {
    **STEPS,
    "mean error, %": [3.0, 3.1, 3.0, 2.0],
    "change, in standard errors": [None, 1.0, None, -3.0],
}
CELLS = {"data": ["a", "a", "b", "b"], "machine": ["CPM", "AMM", "CPM", "AMM"]}


@pytest.mark.parametrize(
    ("module", "claim", "columns", "word"),
    [
        (rmm, "stretched", {"SVM": [178.0, 90.0], "RMM, B = 1": [45.0, 45.0]}, "yes"),
        (rmm, "stretched", {"SVM": [178.0, 178.0], "RMM, B = 1": [45.0, 45.0]}, "no"),
        (rmm, "stretched", {"SVM": [178.0, 90.0], "RMM, B = 1": [45.0, 90.0]}, "no"),
        (polyceptron, "falls", {"solver": ["online", "batch"], "E_P rises, % of steps": [9.0, 0.0]}, "yes"),
        (polyceptron, "falls", {"solver": ["batch", "batch"], "E_P rises, % of steps": [0.0, 1.0]}, "no"),
        (cpm, "more_faces", {**RUNS, "steps": 9, "mean error, %": [3.0, 2.0, 1.0]}, "yes"),
        (cpm, "more_faces", {**RUNS, "steps": 9, "mean error, %": [3.0, 2.0, 2.05]}, "yes"),
        (cpm, "more_faces", {**RUNS, "steps": 9, "mean error, %": [3.0, 2.0, 2.2]}, "partly"),
        (cpm, "more_faces", {**RUNS, "steps": 9, "mean error, %": [1.0, 2.0, 2.1]}, "no"),
        (cpm, "more_steps", {**STEPS, "change, in standard errors": [None, -3.0, None, 1.9]}, "yes"),
        (cpm, "more_steps", {**STEPS, "change, in standard errors": [None, -3.0, None, 2.1]}, "partly"),
        (
            cpm,
            "more_steps",
            {**STEPS, **RISES, "change, in standard errors": [None, 1.0, None, -3.0]},
            "partly",
        ),
        (cpm, "adaptive", {**CELLS, "test error, %": [1.0, 2.0, 3.0, 4.0]}, "yes"),
        (cpm, "adaptive", {**CELLS, "test error, %": [1.0, 2.0, 3.0, 2.0]}, "partly"),
        (cpm, "adaptive", {**CELLS, "test error, %": [1.0, None, 3.0, 2.0]}, "no"),
        (cross_entropy, "parallel", {"times faster by the clock": [1.9, 1.7], "load": [0.1, 0.2]}, "yes"),
        (cross_entropy, "parallel", {"times faster by the clock": [1.0, 0.9], "load": [0.1, 9.0]}, "no"),
    ],
)
def test_verdicts_follow_the_tables(module, claim, columns, word, monkeypatch):
    """A verdict changes with the figures of its table."""
    monkeypatch.setattr(module, "table_of", table(**columns))
    assert getattr(module, claim)()[0] == word


def test_missing_tables_are_not_computed(monkeypatch):
    """Without kept tables no claim has a verdict of figures."""
    import benchmarks.rmm_table

    monkeypatch.setattr(chapter, "kept_table", lambda name: None)
    monkeypatch.setattr(benchmarks.rmm_table, "kept_cells", list)
    for each in CHAPTERS.values():
        claims, _ = each.tables()
        assert {*claims["seen"]} <= {"not computed", *(word for word in VERDICTS if "test" in word)}
