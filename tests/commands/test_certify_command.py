"""``polyopt certify``: solutions of other packages, and whose files it must not write over."""

import gzip
import json

import numpy as np
import pytest
from helpers.commands import refused, worked, write
from sklearn.svm import SVC

from polyopt.check import check as checker


def joined(text):
    """The output, whose lines end where the terminal does."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2)).round(4)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, "up", "down")


@pytest.fixture
def table(samples, tmp_path):
    X, y = samples
    rows = [[label, *x] for x, label in zip(X.tolist(), y, strict=True)]
    return write(tmp_path / "t.csv", ["way", "a", "b"], *rows)


@pytest.fixture
def weights(samples, tmp_path):
    machine = SVC(kernel="linear").fit(*samples)
    np.savez(tmp_path / "svc.npz", w=machine.coef_[0], b=machine.intercept_[0])
    return tmp_path / "svc.npz"


def test_solution_of_other_package_is_claimed(table, weights, tmp_path):
    """A claim about another package's solution is written, and the checker accepts it."""
    out = tmp_path / "claim.json"
    where = ("--coefficients", weights, "--data", table, "--target", "way", "--out", out)
    said = joined(worked("certify", *where, "--program", "rmm", "--B", 20))
    assert "of the optimum of the Relative Margin Machine, proven" in said
    assert "found: none came with the solution" in said
    assert checker.main([str(out), str(table)]) == 0
    before = json.loads(out.read_text())
    # The checker cannot read data with decimal commas: the samples are written beside the claim.
    (tmp_path / "decimal.csv").write_text(table.read_text().replace(",", ";").replace(".", ","))
    again = ("--data", tmp_path / "decimal.csv", "--decimal", ",", "--program", "rmm", "--B", 20)
    worked("certify", *where, *again)
    assert json.loads(out.read_text())["claims"][0]["claim"] == before["claims"][0]["claim"]
    assert checker.main([str(out), str(tmp_path / "claim.svm")]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "MODEL and DATA, or --coefficients"), ("--coefficients W", "MODEL and DATA, or --coefficients"),
        ("W T --coefficients W --data T", "MODEL and DATA, or --coefficients"),
        ("W T --C 2", "for --coefficients"),
        ("--coefficients W --data T --program lasso", "--program must be one of svm, rmm"),
        ("--coefficients W --data T --B 2", "B is no setting of svm"),
        ("--coefficients W --data T --set tol=1", "tol is no setting of svm"),
        ("--coefficients W --data T --kernel sigmoid", "kernel must be"),
        ("--coefficients W --data T --program rmm", "rmm needs B"),
        ("--coefficients W --data T --positive left", "'left' is no label"),
        ("--coefficients W --data T --out W", "the file that is read"),
        ("--coefficients W --data T --out T", "the file that is read"),
        ("--coefficients T --data T", "is no table of numbers"), ("--coefficients absent --data T", "absent"),
        ("--coefficients W --data ionosphere", "2 coefficients, and the data have"),
    ],
)  # fmt: skip
def test_misfit_is_told(words, sentence, table, weights):
    """Options, labels and files that do not fit are told, and no file is changed."""
    known = {"W": weights, "T": table}
    before = table.read_bytes(), weights.read_bytes()
    target = ["--target", "way"] if "--data T" in words and "--out" not in words else []
    assert sentence in refused("certify", *(known.get(word, word) for word in words.split()), *target)
    assert (table.read_bytes(), weights.read_bytes()) == before


def test_samples_replace_no_data(table, weights, tmp_path):
    """Data of the name that the samples would have, in a form that the checker does not read."""
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    data = tmp_path / "claim.svm"
    data.write_bytes(gzip.compress("".join(f"{len(y) - 3} 1:{a} 2:{b}\n" for y, a, b in rows).encode()))
    before = data.read_bytes()
    where = ("--data", data, "--out", tmp_path / "claim.json")
    assert "is the file that is read" in refused("certify", "--coefficients", weights, *where)
    model, settings = tmp_path / "m.skops", ("--method", "svm", "--quiet", "--keep-data", "--out")
    claimed = ("fit", data, *settings, model, "--certificate", tmp_path / "claim.json")
    assert "is the file that is read" in refused(*claimed)
    worked("fit", data, *settings, model)
    assert "is the file that is read" in refused("certify", model, data, "--out", tmp_path / "claim.json")
    other = (*where[:-1], tmp_path / "other.svm")
    assert "name the claim otherwise" in refused("certify", "--coefficients", weights, *other)
    assert data.read_bytes() == before
    worked("certify", model, data, "--out", tmp_path / "claim.json", "--force")
    assert checker.main([str(tmp_path / "claim.json"), str(data)]) == 0


@pytest.mark.parametrize("method", ["cpm", "ce-svm"])
def test_global_optimum_is_claim_of_cases(table, method, tmp_path):
    """A proven optimum over all assignments is claimed by its cases, at the fit and from the model."""
    claim, model, again = (tmp_path / name for name in ("claim.json", "m.skops", "again.json"))
    where = ("--method", method, "--target", "way", "--solver", "proving", "--keep-data", "--quiet")
    assert "checked in 6 steps" in joined(
        worked("fit", table, *where, "--certificate", claim, "--out", model)
    )
    assert "ways" in json.loads(claim.read_text())["claims"][0]["multipliers"]
    worked("certify", model, table, "--out", again)
    assert json.loads(again.read_text()) == json.loads(claim.read_text())


def test_method_without_proof_says_so(table):
    """A convex method has no solver that proves more."""
    line = ("fit", table, "--method", "svm", "--target", "way", "--solver", "proving")
    assert "svm has no solver that proves more" in refused(*line)
