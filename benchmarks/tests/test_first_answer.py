"""The benchmark of first answers: its rows, and a rival that is not installed."""

import pandas as pd

from benchmarks import first_answer
from benchmarks.helpers.pages import first_answers


def test_absent_rival_is_left_out(capsys):
    """Its line says so; the other machines have the median of each step."""
    rivals = {"SVC": ("sklearn.svm", "SVC()"), "ABC": ("absent.abc", "ABC()")}
    table = first_answer.run(smoke=True, rivals=rivals, measured=lambda script: [1.0, 2.0, 0.5, 0.25])
    assert table["machine"].tolist() == ["svm", "cpm", "SVC"]
    assert table["import and first fit"].tolist() == [3.0] * 3
    assert table["certificate"].isna().tolist() == [False, False, True]
    assert capsys.readouterr().out == "first_answer: ABC is left out, as absent.abc is not installed\n"


def test_speed_is_relative_to_svc():
    """The README's line compares our machines with SVC alone."""
    table = pd.DataFrame(
        {"machine": ["svm", "cpm", "SVC", "EBM"], "import and first fit": [2.0, 4.0, 1.0, 9.0]}
    )
    assert first_answers(table).tolist() == [0.5, 0.25]
