"""``polyopt certify``: solutions of other packages, and whose files it must not write over."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sklearn.svm import SVC
from typer.testing import CliRunner

from polyopt.check import check as checker
from polyopt.cli import app


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


def said(done):
    """The output, whose lines end where the terminal does."""
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2)).round(4)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, "up", "down")


@pytest.fixture
def table(samples, tmp_path):
    X, y = samples
    lines = [f"{label},{a!r},{b!r}" for (a, b), label in zip(X.tolist(), y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["way,a,b", *lines]) + "\n")
    return tmp_path / "t.csv"


@pytest.fixture
def weights(samples, tmp_path):
    machine = SVC(kernel="linear").fit(*samples)
    np.savez(tmp_path / "svc.npz", w=machine.coef_[0], b=machine.intercept_[0])
    return tmp_path / "svc.npz"


def test_a_claim_about_another_packages_solution_is_written_and_checked(table, weights, tmp_path):
    out = tmp_path / "claim.json"
    where = ("--coefficients", weights, "--data", table, "--target", "way", "--out", out)
    done = run("certify", *where, "--program", "rmm", "--B", 20)
    assert done.exit_code == 0, done.output
    assert "of the optimum of the Relative Margin Machine, proven" in said(done)
    assert "found: none came with the solution" in said(done)
    assert checker.main([str(out), str(table)]) == 0
    before = json.loads(out.read_text())
    # Where the checker cannot read the data, the samples are written beside the claim.
    (tmp_path / "decimal.csv").write_text(table.read_text().replace(",", ";").replace(".", ","))
    again = ("--data", tmp_path / "decimal.csv", "--decimal", ",", "--program", "rmm", "--B", 20)
    done = run("certify", *where, *again)
    assert done.exit_code == 0, done.output
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
def test_what_does_not_fit_ends_in_a_sentence(words, sentence, table, weights):
    known = {"W": weights, "T": table}
    before = table.read_bytes(), weights.read_bytes()
    target = ["--target", "way"] if "--data T" in words and "--out" not in words else []
    done = run("certify", *(known.get(word, word) for word in words.split()), *target)
    assert done.exit_code == 2
    assert sentence in said(done)
    assert (table.read_bytes(), weights.read_bytes()) == before


def test_the_samples_are_not_written_over_the_data(table, weights, tmp_path):
    """Data of the name that the samples would have, in a form that the checker does not read."""
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    data = tmp_path / "claim.svm"
    data.write_bytes(gzip.compress("".join(f"{len(y) - 3} 1:{a} 2:{b}\n" for y, a, b in rows).encode()))
    before = data.read_bytes()
    where = ("--data", data, "--out", tmp_path / "claim.json")
    done = run("certify", "--coefficients", weights, *where)
    assert done.exit_code == 2
    assert "is the file that is read" in said(done)
    model = tmp_path / "m.skops"
    settings = ("--method", "svm", "--quiet", "--keep-data")
    done = run("fit", data, *settings, "--out", model, "--certificate", tmp_path / "claim.json")
    assert (done.exit_code, "is the file that is read" in said(done)) == (2, True)
    done = run("certify", model, data, "--out", tmp_path / "claim.json")
    assert (done.exit_code, "is the file that is read" in said(done)) == (2, True)
    done = run("certify", "--coefficients", weights, *where[:-1], tmp_path / "other.svm")
    assert (done.exit_code, "name the claim otherwise" in said(done)) == (2, True)
    assert data.read_bytes() == before
    done = run("certify", model, data, "--out", tmp_path / "claim.json", "--force")
    assert done.exit_code == 0, done.output
    assert checker.main([str(tmp_path / "claim.json"), str(data)]) == 0


@pytest.mark.parametrize("method", ["cpm", "ce-svm"])
def test_a_global_optimum_is_a_claim_of_cases(table, method, tmp_path):
    claim, model, again = (tmp_path / name for name in ("claim.json", "m.skops", "again.json"))
    where = ("--method", method, "--target", "way", "--solver", "proving", "--keep-data")
    done = run("fit", table, *where, "--certificate", claim, "--out", model, "--quiet")
    assert done.exit_code == 0, done.output
    assert "checked in 6 steps" in said(done)
    assert "ways" in json.loads(claim.read_text())["claims"][0]["multipliers"]
    done = run("certify", model, table, "--out", again)
    assert done.exit_code == 0, done.output
    assert json.loads(again.read_text()) == json.loads(claim.read_text())


def test_a_method_without_a_solver_that_proves_says_so(table):
    done = run("fit", table, "--method", "svm", "--target", "way", "--solver", "proving", "--quiet")
    assert done.exit_code == 2
    assert "svm has no solver that proves more" in said(done)
