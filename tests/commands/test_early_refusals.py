"""A wrong path, and a word that is no option's value, is told before anything heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("cvxpy", "joblib", "matplotlib", "numpy", "pandas", "scipy", "sklearn", "skops")

WRONG_PATHS = [
    "fit missing.csv",
    "fit folder",
    "duals --data missing.csv",
    "compare --data missing.csv",
    "compare --data table.csv --data missing.csv",
    "predict missing.skops table.csv",
    "predict folder table.csv",
    "predict model.skops missing.csv",
    "certify missing.skops table.csv",
    "certify model.skops missing.csv",
    "certify --coefficients missing.npz --data table.csv",
    "certify --coefficients table.csv --data missing.csv",
    "rules missing.skops",
    "rules model.skops --data missing.csv",
    "explain missing.skops table.csv",
    "explain model.skops missing.csv",
    "info missing.skops",
    "export missing.skops --out model.onnx",
]

UNKNOWN_VALUES = {
    "fit table.csv --method nonsense": "nonsense",
    "fit table.csv --kernel nonsense": "--kernel",
    "fit table.csv --impute nonsense": "--impute",
    "fit table.csv --method svm --solver proving": "--solver",
    "fit table.csv --out missing/model.skops": "missing",
    "duals --data table.csv --gamma nonsense": "--gamma",
    "compare --data table.csv --method svm,nonsense": "nonsense",
}

REPORT = """
import contextlib, io, json, sys
from polyopt.cli import app
told = {}
for line in ["--help", *json.loads(sys.argv[1])]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            app(line.split())
        except SystemExit as end:
            told[line] = end.code, sorted(set(json.loads(sys.argv[2])) & sys.modules.keys()), said.getvalue()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return of each command its exit status, the heavy modules imported by then, and what it said.

    All are called in one process: what one of them imports is held against those after it, too.
    """
    base = tmp_path_factory.mktemp("paths")
    (base / "table.csv").write_text("a,b,y\n1,2,p\n3,4,q\n", encoding="utf-8")
    (base / "model.skops").write_bytes(b"")
    (base / "folder").mkdir()
    given = json.dumps([*WRONG_PATHS, *UNKNOWN_VALUES]), json.dumps(HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *given], cwd=base, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("line", WRONG_PATHS)
def test_wrong_path(told, line):
    """Every command that reads files says which one is wrong, and has imported nothing heavy."""
    status, heavy, said = told[line]
    assert (status, heavy) == (2, [])
    assert any(word in said for word in ("missing", "folder"))


@pytest.mark.parametrize("line", UNKNOWN_VALUES)
def test_unknown_value(told, line):
    """An option's value that there is not is told as early."""
    status, heavy, said = told[line]
    assert (status, heavy) == (2, [])
    assert UNKNOWN_VALUES[line] in said


def test_help(told):
    """The list of commands needs none of the libraries that compute."""
    status, heavy, _ = told["--help"]
    assert (status, heavy) == (0, [])


def test_models_of_all_methods_need_no_cvxpy():
    """Neither cvxpy nor matplotlib is imported with any estimator, and so by no prediction."""
    script = (
        "import sys; from polyopt.models import load_model; from polyopt.methods import METHODS;"
        "[METHODS[name].estimator_class for name in METHODS];"
        "print(*{'cvxpy', 'matplotlib', 'sklearn'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["sklearn"]
