"""What is shown of a thing in a shell: ten lines of eighty columns."""

import numpy as np
import pytest

from formulations.language.display import Summary, Table, short, text_of
from formulations.language.solution import Solution, Status


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25])
def test_many_lines_are_counted(count):
    """Of more than ten lines the last one counts the rest."""
    lines = [f"line {i}" for i in range(count)]
    found = short(lines, ": print it")
    assert len(found) == min(count, 10)
    if count <= 10:
        assert found == lines
    else:
        assert found[:9] == lines[:9]
        assert found[9] == f"  … and {count - 9} more: print it"


@pytest.mark.parametrize("length", [1, 79, 80, 81, 200])
def test_long_line_is_cut(length):
    """A line has 80 characters at most."""
    (found,) = short(["x" * length + "  "])
    assert found == ("x" * length if length <= 80 else "x" * 79 + "…")


def test_facts_take_two_lines_at_most():
    """A fact is wrapped once and then cut."""
    some, many = " ".join(["word"] * 10), " ".join(["word"] * 60)
    found = text_of(Summary("A thing", (("a", some), ("longer", many), ("none", "")))).splitlines()
    assert found[0] == "A thing"
    assert found[1] == f"  a       {some}"
    assert found[2] == "  longer  " + " ".join(["word"] * 14)
    assert found[3].startswith(" " * 10 + "word word")
    assert found[3].endswith("word …")
    assert len(found[3]) <= 80
    assert found[4:] == ["  none"]


def test_columns_are_right_aligned():
    """All but the last column; a table that is folded is not printed."""
    rows = ("1", "one"), ("100", "a hundred")
    lines = ["    n  name", "    1  one", "  100  a hundred"]
    for is_open in (False, True):  # the others are folded
        table = Table("Numbers", ("n", "name"), rows, is_open)
        assert text_of(Summary("T", (), (table,))).splitlines() == ["T", *(lines if is_open else [])]
    assert text_of(Summary("T", (), (Table("Numbers", ("n", "name"), rows),))) == "T"


def test_solution_shows_its_numbers():
    """Status, values, variables and the last 50 records."""
    vectors = {"w": np.array([[0.0, -2.5], [1.0, 0.0]]), "b": np.array(3.0), "names": np.array(["a"])}
    run = tuple({"step": float(i), "bound": i / 4} for i in range(60))
    found = Solution(Status.TIME_LIMIT, vectors, {}, 1.5, None, "ours", 7, history=run)._summary()
    assert found.title == "Solution: time limit"
    facts = dict(found.facts)
    assert (facts["objective"], facts["bound"], facts["solver"]) == ("1.5", "–", "ours, 7 iterations")
    assert (facts["variables"], facts["multipliers"]) == ("w, b, names", "none")
    variables, history = found.tables
    assert variables.rows == (
        ("w", "2×2", "2", "-2.5", "1"), ("b", "1", "1", "3", "3"), ("names", "1", "–", "–", "–"),
    )  # fmt: skip
    assert (history.title, history.columns) == ("history, 60 records, the last 50", ("step", "bound"))
    assert (history.rows[0], history.rows[-1], len(history.rows)) == (("10", "2.5"), ("59", "14.75"), 50)
    few = Solution(Status.SOLVED, {}, {}, 1.5, 1.25, "ours", 7, history=run[:50])._summary()
    assert [table.title for table in few.tables] == ["history, 50 records"]
    assert dict(few.facts)["bound"] == "1.25 (by the solver's word)"
    plain = Solution(Status.SOLVED, {}, {}, 1.5, 1.25, "ours", 7)
    assert plain._summary().tables == ()
    assert (plain.build_time, plain.solve_time, plain.history, plain.runs) == (0.0, 0.0, (), ())


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_status_does_not_say_optimal(status):
    """A solver says how it ended; only a certificate speaks of optimality."""
    assert "optimal" not in str(status)
    assert status.name != "OPTIMAL"
