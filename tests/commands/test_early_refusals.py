"""A wrong path, and a word that is no option's value, is told before anything heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
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


# Packages of which a command on a saved model uses nothing; parts of those that are put off.
UNUSED = ("cvxpy", "matplotlib", "pandas.core", "scipy.stats.distributions", "skops", "sklearn.metrics")

IMPORTED = """
import json, sys
from polyopt.__main__ import main
unused = json.loads(sys.argv.pop(1))
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(set(unused) & sys.modules.keys())), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a table and models of it, one with probabilities, one of texts and gaps."""
    base = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["y"] = np.where((frame**2).sum(axis=1) < 2.4, "in", "out")
    frame.to_csv(base / "table.csv", index=False)
    frame["c"] = np.where(frame["c"] > 0, "high", "low")
    frame.loc[3, "a"] = np.nan
    frame.to_csv(base / "texts.csv", index=False)
    for options in (
        "table.csv --method svm --out svm.skops",
        "table.csv --method cpm --out cpm.skops",
        "texts.csv --method svm --categorical c --impute median --out texts.skops",
    ):
        words = [sys.executable, "-m", "polyopt", "fit", *options.split(), "-q"]
        subprocess.run(words, cwd=base, capture_output=True, check=True)
    return base


def _imported(base, line):
    """Return the unused packages that a command has imported."""
    words = [sys.executable, "-c", IMPORTED, json.dumps(UNUSED), *line.split()]
    done = subprocess.run(words, cwd=base, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "info cpm.skops",
        "rules cpm.skops",
        "rules cpm.skops --format sql",
        "predict svm.skops table.csv",
        "predict cpm.skops table.csv",
    ],
)
def test_command_imports_what_it_uses(saved, line):
    assert _imported(saved, line) == []


def test_models_of_more_steps_need_no_skops(saved):
    """Columns of texts import more of scikit-learn, which imports scipy.stats."""
    assert not {"cvxpy", "matplotlib", "skops"} & set(_imported(saved, "predict texts.skops texts.csv"))


def test_deferred_module_is_imported_when_used():
    """pandas and scipy.stats are whole for whoever imports them after scikit-learn."""
    script = (
        "import sys; from polyopt.cli.data import import_sklearn; import_sklearn();"
        "import sklearn.utils.fixes as fixes;"
        "print('pandas' in sys.modules, 'scipy.stats.distributions' in sys.modules);"
        "import pandas, scipy.stats; from scipy.stats import norm;"
        "print(fixes.pd.DataFrame is pandas.DataFrame, scipy.stats.norm is norm, norm.cdf(0.0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "True", "0.5"]
