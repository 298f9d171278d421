"""Rules as SQL and the rest are the model itself; shortened ones say what they cost."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.commands import run, worked
from helpers.sql import labels_by_sql

from polyopt.datasets import load
from polyopt.models import load_model
from polyopt.models.rules import Rules
from polyopt.polytope import Polytope


@pytest.fixture(scope="module", params=["wdbc", "ionosphere"])
def saved(request, tmp_path_factory):
    """A model of real data, and the data."""
    path = tmp_path_factory.mktemp("rules") / "m.skops"
    worked("fit", request.param, "--method", "cpm", "--set", "max_iter=30", "--out", path)
    found = load(request.param)
    names = found.feature_names or [f"x{j}" for j in range(found.X.shape[1])]
    return path, request.param, found.X, list(names)


def test_code_gives_the_model_s_labels_on_all_rows(saved):
    path, data, X, names = saved
    text = worked("rules", path, "--format", "sql", "--data", data)
    assert f"100.00 % of the {len(X)} samples of {data} ({len(X)} of {len(X)})" in text
    assert labels_by_sql(text, X, names) == load_model(path).predict(X).tolist()


def test_shortened_code_agrees_as_often_as_it_says(saved):
    path, data, X, names = saved
    text = worked("rules", path, "--format", "sql", "--terms", 3, "--digits", 2, "--data", data)
    same = int((np.array(labels_by_sql(text, X, names)) == load_model(path).predict(X)).sum())
    assert same < len(X)
    assert f"({same} of {len(X)})" in text


def test_json_has_the_faces_and_the_counts(saved):
    path, data, X, names = saved
    found = json.loads(worked("rules", path, "--format", "json", "--terms", 4, "--data", data))
    [polytope] = found["polytopes"]
    W, b = np.zeros((len(polytope["faces"]), X.shape[1])), np.zeros(len(polytope["faces"]))
    for face in polytope["faces"]:
        assert len(face["terms"]) == 4
        b[face["face"]] = -face["limit"]
        for term in face["terms"]:
            W[face["face"], names.index(term["feature"])] = term["coefficient"]
    labels = np.where((X @ W.T + b > 0).any(axis=1), polytope["outside"], polytope["inside"])
    same = int((labels == load_model(path).predict(X)).sum())
    assert found["agreement"] == [{"data": f"{len(X)} samples of {data}", "same": same, "samples": len(X)}]
    assert found["terms"] == 4


def test_the_fewest_terms_are_the_fewest(saved):
    path, data, X, _ = saved
    rules = Rules.of(load_model(path))
    said = worked("rules", path, "--fidelity", 0.98, "--data", data)
    found = rules.fewest_terms(X, 0.98)
    assert f"The fewest terms that agree on 98 %: {found} term" in said
    shares = [rules.shortened(None, terms).agreement(X).mean() for terms in range(1, found + 1)]
    assert shares[-1] >= 0.98
    assert max(shares[:-1], default=0.0) < 0.98
    assert rules.fewest_terms(X, 1.0) <= rules.most_terms


def test_a_shortened_face_keeps_its_weightiest_terms_and_puts_the_rest_at_the_mean():
    whole = Polytope([[3.0, -1.0, 0.5]], [-2.0], ["a", "b", "c"], [1.0, 10.0, 1.0], [1.0, 2.0, 4.0])
    assert whole.shortened(max_terms=1).W.tolist() == [[0.0, -1.0, 0.0]]
    assert whole.shortened(max_terms=1).b.tolist() == [-2.0 + 3.0 * 1.0 + 0.5 * 4.0]
    assert "-1 b + (2 smaller terms, together 5 on average) > 2" in whole.rules(max_terms=1)
    rounded = Polytope([[1 / 3]], [-2 / 3]).shortened(digits=2)
    assert (rounded.W.tolist(), rounded.b.tolist()) == ([[0.33]], [-0.67])
    with pytest.raises(ValueError, match="max_terms must be at least 1"):
        whole.shortened(max_terms=0)


def test_what_is_not_known_is_said(saved):
    path, data, _, _ = saved
    assert "cut to 2 terms a face" in worked("rules", path, "--terms", 2)
    assert "rounded to 3 digits" in worked("rules", path)
    assert "not known" not in worked("rules", path, "--format", "sql")
    assert "not known" not in worked("rules", path, "--terms", 2, "--data", data)


def test_a_published_test_part_is_counted_apart(saved, monkeypatch):
    from dataclasses import replace

    path, data, X, _ = saved
    found = load(data)
    split = replace(found, X=X[:200], y=found.y[:200], X_test=X[200:], y_test=found.y[200:])
    monkeypatch.setattr("polyopt.datasets.load", lambda *_: split)
    said = worked("rules", path, "--terms", 3, "--data", data)
    assert "of the 200 training samples" in said
    assert f"of the {len(X) - 200} test samples" in said


def test_two_sides_agree_with_their_difference(tmp_path):
    path = tmp_path / "m.skops"
    worked(
        "fit", "sonar", "--method", "cpm", "--set", "inside_label=both", "--set", "max_iter=20", "--out", path
    )
    said = worked("rules", path, "--digits", 12, "--data", "sonar")
    assert "100.00 % of the 208 samples" in said
    assert json.loads(worked("rules", path, "--format", "json"))["polytopes"][1]["faces"]
    refused = run("rules", path, "--format", "sql")
    assert refused.exit_code == 2
    assert "this model decides by the difference of two polytopes" in refused.output


HOSTILE = [
    'a"; DROP TABLE samples; --',
    "b'] or __import__('os').abort() or sample['b",
    "c\nd\\",
    "[red]|`<b>*e_",
    'é"]',
]


def test_no_name_can_inject():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    polytope = Polytope(rng.normal(size=(3, 5)), [-1.0, -0.5, 0.1], HOSTILE)
    inside, outside = 'it\'s "in"', "out\\'"
    expected = np.where(polytope.contains(X), inside, outside).tolist()
    assert labels_by_sql(polytope.to_sql(inside, outside), X, HOSTILE) == expected
    assert json.loads(json.dumps(polytope.to_json()))["faces"][0]["terms"][3]["feature"] == HOSTILE[3]


ODD = ["it's", 'a "b"', "x'; DROP TABLE samples; --", "back\\slash", "{0}", "12", "é %s", "--"]


@pytest.fixture(scope="module")
def odd_table(tmp_path_factory):
    """A table of numbers and texts with gaps, and names and labels with quotes; two classes."""
    import csv

    rng = np.random.default_rng(3)
    rows = []
    for _ in range(120):
        text, other, number = rng.integers(8), rng.integers(3), rng.normal()
        label = "it's" if number + 0.7 * (text % 3) - other > 0.4 else '"out"'
        row = [f"{number:.4f}", ODD[text], f"{rng.normal():.4f}", "rgb"[other], label]
        for j in range(4):
            row[j] = "" if rng.random() < 0.1 else row[j]
        rows.append(row)
    path = tmp_path_factory.mktemp("odd") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([['si"ze', "it's", "x", "co;lour", "y"], *rows])
    return path


def cells_of(path):
    """Names and cells of a table; a gap is None."""
    import csv

    with path.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    numbers = (0, 2)
    cells = [
        [None if cell == "" else float(cell) if j in numbers else cell for j, cell in enumerate(row[:4])]
        for row in rows
    ]
    return header[:4], np.array(cells, dtype=object)


@pytest.mark.parametrize("impute", ["median", "most-frequent"])
def test_texts_and_gaps_are_read_as_the_model_reads_them(odd_table, tmp_path, impute):
    path = tmp_path / "m.skops"
    options = ("--method", "cpm", "--faces", 3, "--impute", impute, "--categorical", "it's,co;lour")
    worked("fit", odd_table, *options, "--set", "n_init=1", "--quiet", "--out", path)
    names, cells = cells_of(odd_table)
    # Besides the rows of the fit: texts that it did not see, and a row of gaps alone.
    more = np.array([[0.3, "new", -1.0, "r"], [None] * 4, [2.0, "", 0.5, "RGB"]], dtype=object)
    table = np.vstack([cells, more])
    read = np.where(table == None, np.nan, table)  # noqa: E711 - by cell
    read[:, [1, 3]] = table[:, [1, 3]]
    labels = load_model(path).predict(read).tolist()
    assert len(set(labels)) == 2
    sql = worked("rules", path, "--format", "sql", "--data", odd_table)
    assert "100.00 % of the 120 samples" in sql
    assert "COALESCE" in sql
    assert labels_by_sql(sql, table, names) == labels
    short = worked("rules", path, "--format", "sql", "--terms", 2, "--data", odd_table)
    assert (
        f"({sum(a == b for a, b in zip(labels_by_sql(short, cells, names), labels, strict=False))} of 120)"
        in short
    )


def test_without_an_imputer_a_gap_has_no_label(odd_table, tmp_path):
    table, path = tmp_path / "whole.csv", tmp_path / "m.skops"
    header, *lines = odd_table.read_text(encoding="utf-8").splitlines()
    whole = [line for line in lines if ",," not in line and not line.startswith(",")]
    table.write_text("\n".join([header, *whole]) + "\n", encoding="utf-8")
    worked("fit", table, "--method", "cpm", "--faces", 2, "--categorical", "all", "--quiet", "--out", path)
    names, cells = cells_of(table)
    labels = load_model(path).predict(cells).tolist()
    sql = worked("rules", path, "--format", "sql")
    assert "COALESCE" not in sql
    assert labels_by_sql(sql, cells, names) == labels
    for j in range(4):
        gap = cells[:1].copy()
        gap[0, j] = None
        assert labels_by_sql(sql, gap, names) == [None]


def test_what_code_cannot_have_is_refused_in_a_sentence():
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import KBinsDiscretizer

    from polyopt import ConvexPolytopeMachine
    from polyopt.models import Model

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    bins = ColumnTransformer([("numbers", KBinsDiscretizer(2, encode="ordinal"), [0, 1, 2])])
    for step, said in ((PCA(), "the step PCA is before"), (bins, "the step KBinsDiscretizer is before")):
        machine = ConvexPolytopeMachine(1, n_init=1).fit(step.fit_transform(np.round(X)), y)
        with pytest.raises(ValueError, match=said):
            Rules.of(Model.of(machine, [("step", step)], method="cpm"))


def test_names_on_the_screen_are_text(tmp_path):
    table, path = tmp_path / "t.csv", tmp_path / "m.skops"
    rng = np.random.default_rng(0)
    rows = "".join(f"{a:.3f},{b:.3f},{'x' if a > 0 else 'y'}\n" for a, b in rng.normal(size=(30, 2)))
    table.write_text("a\x1b[2J,<b>|*_c_*,y\n" + rows, encoding="utf-8")
    worked("fit", table, "--method", "cpm", "--faces", 2, "--out", path)
    said = worked("rules", path)
    assert "\x1b" not in said
    assert "<b>|*_c_*" in said


def test_missing_values_have_no_label():
    polytope = Polytope([[1.0, 0.0]], [0.0], ["a", "b"])
    assert labels_by_sql(polytope.to_sql(), np.array([[1.0, 2.0], [np.nan, 2.0]]), ["a", "b"]) == [
        "outside",
        None,
    ]


def test_faces_without_normals_and_many_terms():
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(1200)]
    wide = Polytope(rng.normal(size=(2, 1200)), [0.0, -1.0])
    X = rng.normal(size=(20, 1200))
    expected = np.where(wide.contains(X), "inside", "outside").tolist()
    assert labels_by_sql(wide.to_sql(), X, names) == expected
    for offset, label in ((1.0, "outside"), (-1.0, "inside")):
        flat = Polytope([[0.0]], [offset])
        assert labels_by_sql(flat.to_sql(), np.zeros((1, 1)), ["x0"]) == [label]


def test_what_cannot_be_told_is_refused(saved):
    path, data, _, _ = saved
    for options, message in (
        (("--fidelity", 0.9), "give that, and no --terms"),
        (("--fidelity", 0.9, "--terms", 2, "--data", data), "give that, and no --terms"),
        (("--fidelity", 0.0, "--data", data), "must be above 0 and at most 1"),
        (("--fidelity", 1.0, "--digits", 1, "--data", data), "no number of terms reaches a fidelity of 1"),
    ):
        done = run("rules", path, *options)
        assert done.exit_code == 2
        assert message in done.output
    with pytest.raises(ValueError, match="two features are called 'a'"):
        Polytope([[1.0, 2.0]], [0.0], ["a", "a"]).to_sql()
    with pytest.raises(ValueError, match="NUL"):
        Polytope([[1.0]], [0.0], ["a\x00"]).to_sql()
