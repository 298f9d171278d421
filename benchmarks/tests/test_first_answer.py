"""The benchmark of first answers: its rows, and a rival that is not installed."""

from __future__ import annotations

import pandas as pd

from benchmarks import first_answer
from benchmarks.helpers.pages import _first_answers


def test_absent_rival_is_left_out(monkeypatch, capsys):
    """Its line says so; the others have the median of each step."""
    monkeypatch.setattr(
        first_answer, "RIVALS", {"SVC": ("sklearn.svm", "SVC()"), "ABC": ("absent.abc", "ABC()")}
    )
    monkeypatch.setattr(first_answer, "_seconds", lambda script: [1.0, 2.0, 0.5, 0.25])
    table = first_answer.run(smoke=True).set_index("machine")
    assert list(table.index) == ["svm", "cpm", "SVC"]
    assert table["import and first fit"].tolist() == [3.0] * 3
    assert table["certificate"].isna().tolist() == [False, False, True]
    assert capsys.readouterr().out == "first_answer: ABC is left out, as absent.abc is not installed\n"


def test_speed_line():
    """The README's line compares our machines with SVC alone."""
    table = pd.DataFrame(
        {"machine": ["svm", "cpm", "SVC", "EBM"], "import and first fit": [2.0, 4.0, 1.0, 9.0]}
    )
    assert _first_answers(table).tolist() == [0.5, 0.25]
