"""Rules as text, SQL and JSON are the model itself; shortened ones say what they cost."""

import csv
import json

import numpy as np
import pytest
from helpers.commands import run, worked
from helpers.sql import labels_by_sql

from polyopt.datasets import load
from polyopt.models import load_model
from polyopt.models.rules import Rules
from polyopt.polytope import Polytope

DATA = "wdbc"
X = load(DATA).X
NAMES = load(DATA).feature_names


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A model of real data in a file."""
    path = tmp_path_factory.mktemp("rules") / "m.skops"
    worked("fit", DATA, "--method", "cpm", "--set", "max_iter=30", "--set", "n_init=1", "--out", path)
    return path


def test_code_has_labels_of_all_rows(path):
    """SQL has the model's label for every sample, and says so."""
    text = worked("rules", path, "--format", "sql", "--data", DATA)
    assert f"100.00 % of the {len(X)} samples of {DATA} ({len(X)} of {len(X)})" in text
    assert labels_by_sql(text, X, NAMES) == load_model(path).predict(X).tolist()


def test_shortened_code_says_its_agreement(path):
    """SQL of few terms and digits agrees with the model as often as it says."""
    text = worked("rules", path, "--format", "sql", "--terms", 3, "--digits", 2, "--data", DATA)
    same = int((np.array(labels_by_sql(text, X, NAMES)) == load_model(path).predict(X)).sum())
    assert same < len(X)
    assert f"({same} of {len(X)})" in text


def test_json_has_faces_and_counts(path):
    """The faces in JSON, evaluated here, agree with the model as often as JSON says."""
    found = json.loads(worked("rules", path, "--format", "json", "--terms", 4, "--data", DATA))
    [polytope] = found["polytopes"]
    W, b = np.zeros((len(polytope["faces"]), X.shape[1])), np.zeros(len(polytope["faces"]))
    for face in polytope["faces"]:
        assert len(face["terms"]) == 4
        b[face["face"]] = -face["limit"]
        for term in face["terms"]:
            W[face["face"], NAMES.index(term["feature"])] = term["coefficient"]
    labels = np.where((X @ W.T + b > 0).any(axis=1), polytope["outside"], polytope["inside"])
    same = int((labels == load_model(path).predict(X)).sum())
    assert found["agreement"] == [{"data": f"{len(X)} samples of {DATA}", "same": same, "samples": len(X)}]
    assert found["terms"] == 4


def test_fewest_terms_are_the_fewest(path):
    """The number of terms for a fidelity reaches it, and no smaller number does."""
    rules = Rules.of(load_model(path))
    found = rules.fewest_terms(X, 0.98)
    assert f"agree on 98 %: {found} term" in worked("rules", path, "--fidelity", 0.98, "--data", DATA)
    shares = [rules.shortened(None, terms).agreement(X).mean() for terms in range(1, found + 1)]
    assert max(shares[:-1], default=0.0) < 0.98 <= shares[-1]
    assert rules.fewest_terms(X, 1.0) <= rules.most_terms


def test_shortened_face_has_the_rest_at_its_mean():
    """The weightiest terms in units of the spread stay; the others are constants at their means."""
    whole = Polytope([[3.0, -1.0, 0.5]], [-2.0], ["a", "b", "c"], [1.0, 10.0, 1.0], [1.0, 2.0, 4.0])
    assert whole.shortened(max_terms=1).W.tolist() == [[0.0, -1.0, 0.0]]
    assert whole.shortened(max_terms=1).b.tolist() == [-2.0 + 3.0 * 1.0 + 0.5 * 4.0]
    assert "-1 b + (2 smaller terms, together 5 on average) > 2" in whole.rules(max_terms=1)
    rounded = Polytope([[1 / 3]], [-2 / 3]).shortened(digits=2)
    assert (rounded.W.tolist(), rounded.b.tolist()) == ([[0.33]], [-0.67])


def test_unknown_agreement_is_told(path):
    """Rules without data say what was cut or rounded; whole ones, and those with data, have no doubt."""
    assert "cut to 2 terms a face" in worked("rules", path, "--terms", 2)
    assert "rounded to 3 digits" in worked("rules", path)
    assert "not known" not in worked("rules", path, "--format", "sql")
    assert "not known" not in worked("rules", path, "--terms", 2, "--data", DATA)


def test_published_test_part_is_counted_apart(tmp_path, monkeypatch, rng):
    """The agreement with data that have a test part is counted for either part."""
    path, X = tmp_path / "m.skops", rng.normal(size=(60, 4))
    parts = {
        "X_train": X[:40],
        "X_test": X[40:],
        "y_train": 1 * (X[:40, 0] > 0),
        "y_test": 1 * (X[40:, 0] > 0),
    }
    np.savez(tmp_path / "svmguide1.npz", **parts)
    monkeypatch.setenv("POLYOPT_DATA", str(tmp_path))
    options = ("--faces", 1, "--solver", "fast", "--set", "max_iter=3")
    worked("fit", "svmguide1", "--method", "cpm", *options, "--out", path)
    said = worked("rules", path, "--terms", 2, "--data", "svmguide1")
    assert "of the 40 training samples" in said
    assert "of the 20 test samples" in said


def test_two_sides_are_a_difference(tmp_path):
    """Rules of two polytopes are those of their difference, which has no code."""
    path = tmp_path / "m.skops"
    options = ("--set", "inside_label=both", "--set", "max_iter=20", "--set", "n_init=1")
    worked("fit", "sonar", "--method", "cpm", *options, "--out", path)
    assert "100.00 % of the 208 samples" in worked("rules", path, "--digits", 12, "--data", "sonar")
    assert json.loads(worked("rules", path, "--format", "json"))["polytopes"][1]["faces"]
    refused = run("rules", path, "--format", "sql")
    assert refused.exit_code == 2
    assert "this model decides by the difference of two polytopes" in refused.output


# -- names and cells -----------------------------------------------------------------------------

HOSTILE = [
    'a"; DROP TABLE samples; --',
    "b'] or __import__('os').abort() or sample['b",
    "c\nd\\",
    "[red]|`<b>*e_",
    'é"]',
]


def test_no_name_can_inject(rng):
    """Features and labels with quotes and commands are names and texts in SQL and JSON."""
    samples = rng.normal(size=(40, 5))
    polytope = Polytope(rng.normal(size=(3, 5)), [-1.0, -0.5, 0.1], HOSTILE)
    inside, outside = 'it\'s "in"', "out\\'"
    expected = np.where(polytope.contains(samples), inside, outside).tolist()
    assert labels_by_sql(polytope.to_sql(inside, outside), samples, HOSTILE) == expected
    assert json.loads(json.dumps(polytope.to_json()))["faces"][0]["terms"][3]["feature"] == HOSTILE[3]


COLUMNS = ['si"ze', "it's", "x", "co;lour"]
ODD = ["it's", 'a "b"', "x'; DROP TABLE samples; --", "back\\slash", "{0}", "12", "é %s", "--"]


def odd_cells(gaps):
    """Cells of numbers and texts with quotes, with gaps or without, and labels of two classes."""
    rng = np.random.default_rng(3)
    texts, colours, numbers = rng.integers(8, size=120), rng.integers(3, size=120), rng.normal(size=(120, 2))
    cells = np.empty((120, 4), dtype=object)
    cells[:, 0], cells[:, 2] = numbers.round(4).T
    cells[:, 1], cells[:, 3] = np.array(ODD)[texts], np.array(list("rgb"))[colours]
    cells[(rng.random(cells.shape) < 0.1) & gaps] = None
    return cells, np.where(numbers[:, 0] + 0.7 * (texts % 3) - colours > 0.4, "it's", '"out"')


def written(folder, cells, labels):
    path = folder / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = [["" if cell is None else cell for cell in row] for row in cells]
        csv.writer(stream).writerows([[*COLUMNS, "y"], *(np.column_stack([rows, labels]))])
    return path


@pytest.mark.parametrize("impute", ["median", "most-frequent"])
def test_texts_and_gaps_are_read_as_by_the_model(tmp_path, impute):
    """SQL fills gaps and reads texts, unseen ones too, as the model does."""
    cells, truth = odd_cells(gaps=True)
    table, path = written(tmp_path, cells, truth), tmp_path / "m.skops"
    options = ("--faces", 3, "--impute", impute, "--categorical", "it's,co;lour", "--set", "n_init=1")
    worked("fit", table, "--method", "cpm", *options, "--out", path)
    more = np.array([[0.3, "new", -1.0, "r"], [None] * 4, [2.0, "", 0.5, "RGB"]], dtype=object)
    read = np.vstack([cells, more])
    labels = load_model(path).predict(read).tolist()
    assert len(set(labels)) == 2
    sql = worked("rules", path, "--format", "sql", "--data", table)
    assert "100.00 % of the 120 samples" in sql
    assert "COALESCE" in sql
    assert labels_by_sql(sql, read, COLUMNS) == labels


def test_gap_without_imputer_has_no_label(tmp_path):
    """SQL of a model that fills no gaps is NULL for a row with a gap in any column."""
    cells, truth = odd_cells(gaps=False)
    table, path = written(tmp_path, cells, truth), tmp_path / "m.skops"
    options = ("--faces", 2, "--categorical", "all", "--set", "n_init=1")
    worked("fit", table, "--method", "cpm", *options, "--out", path)
    sql = worked("rules", path, "--format", "sql")
    assert labels_by_sql(sql, cells, COLUMNS) == load_model(path).predict(cells).tolist()
    gaps = np.where(np.eye(4, dtype=bool), None, cells[:1])
    assert labels_by_sql(sql, gaps, COLUMNS) == [None] * 4


def test_names_on_screen_are_text(tmp_path):
    """Names with markup and control characters are printed as they are, without effect."""
    table, path = tmp_path / "t.csv", tmp_path / "m.skops"
    rows = "".join(f"{j % 7},{j % 5},{'xy'[j % 7 > 3]}\n" for j in range(30))
    table.write_text("a\x1b[2J,<b>|*_c_*,y\n" + rows, encoding="utf-8")
    worked("fit", table, "--method", "cpm", "--faces", 2, "--set", "n_init=1", "--out", path)
    said = worked("rules", path)
    assert "\x1b" not in said
    assert "<b>|*_c_*" in said


def test_many_terms_are_one_expression(rng):
    """A face of 1,200 features is SQL that a database reads."""
    wide, samples = Polytope(rng.normal(size=(2, 1200)), [0.0, -1.0]), rng.normal(size=(20, 1200))
    expected = np.where(wide.contains(samples), "inside", "outside").tolist()
    assert labels_by_sql(wide.to_sql(), samples, [f"x{j}" for j in range(1200)]) == expected


@pytest.mark.parametrize(("offset", "label"), [(1.0, "outside"), (-1.0, "inside")])
def test_face_without_normal_is_constant(offset, label):
    """A face 0·x + b decides for all samples alike."""
    assert labels_by_sql(Polytope([[0.0]], [offset]).to_sql(), np.zeros((1, 1)), ["x0"]) == [label]


# -- what is refused -----------------------------------------------------------------------------

OPTIONS = [
    (("--fidelity", 0.9), "give that, and no --terms"),
    (("--fidelity", 0.9, "--terms", 2, "--data", DATA), "give that, and no --terms"),
    (("--fidelity", 0.0, "--data", DATA), "must be above 0 and at most 1"),
    (("--fidelity", 1.0, "--digits", 1, "--data", DATA), "no number of terms reaches a fidelity of 1"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_impossible_options_are_refused(path, options, message):
    """The command names the option that cannot be."""
    done = run("rules", path, *options)
    assert done.exit_code == 2
    assert message in done.output


def test_impossible_rules_are_refused():
    """Names that no column can have, and no terms."""
    with pytest.raises(ValueError, match="two features are called 'a'"):
        Polytope([[1.0, 2.0]], [0.0], ["a", "a"]).to_sql()
    with pytest.raises(ValueError, match="NUL"):
        Polytope([[1.0]], [0.0], ["a\x00"]).to_sql()
    with pytest.raises(ValueError, match="max_terms must be at least 1"):
        Polytope([[1.0]], [0.0]).shortened(max_terms=0)
