"""A wrong path, and a word that is no option's value, is told before anything heavy is imported."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.commands import worked

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

# Each command in turn, in one process: what one of them imports is held against those after it, too.
REPORT = """
import contextlib, io, json, sys
lines, modules = map(json.loads, sys.argv[1:])
from polyopt.cli import app
told = {}
for line in lines:
    if line == "models of all methods":
        from polyopt.methods import METHODS
        [METHODS[name].estimator_class for name in METHODS]
        told[line] = 0, sorted(set(modules) & sys.modules.keys()), ""
        continue
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            app(line.split())
        except SystemExit as end:
            told[line] = end.code or 0, sorted(set(modules) & sys.modules.keys()), said.getvalue()
print(json.dumps(told))
"""


def reported(folder, lines, modules):
    """Return of each command its exit status, the modules that are imported by then, and what it said."""
    given = json.dumps(list(lines)), json.dumps(modules)
    done = subprocess.run([sys.executable, "-c", REPORT, *given], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the commands above say of a folder with a table and an empty model."""
    base = tmp_path_factory.mktemp("paths")
    (base / "table.csv").write_text("a,b,y\n1,2,p\n3,4,q\n", encoding="utf-8")
    (base / "model.skops").write_bytes(b"")
    (base / "folder").mkdir()
    return reported(base, ["--help", *WRONG_PATHS, *UNKNOWN_VALUES], HEAVY)


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


def test_help_imports_nothing_heavy(told):
    """The list of commands needs none of the libraries that compute."""
    assert told["--help"][:2] == [0, []]


# Packages of which a command on a saved model uses nothing; parts of those that are put off.
UNUSED = ("cvxpy", "matplotlib", "pandas.core", "scipy.stats.distributions", "skops", "sklearn.metrics")
USES = {
    "--version": (),
    "info cpm.skops": (),
    "rules cpm.skops": (),
    "rules cpm.skops --format sql": (),
    "predict svm.skops table.csv": (),
    "predict cpm.skops table.csv": (),
    "predict texts.skops texts.csv": ("pandas.core", "scipy.stats.distributions", "sklearn.metrics"),
    "models of all methods": ("pandas.core", "scipy.stats.distributions", "sklearn.metrics"),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """What the commands above import, on a table and models of it, one of them of texts and gaps."""
    base = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["y"] = np.where((frame**2).sum(axis=1) < 2.4, "in", "out")
    frame.to_csv(base / "table.csv", index=False)
    frame["c"] = np.where(frame["c"] > 0, "high", "low")
    frame.loc[3, "a"] = np.nan
    frame.to_csv(base / "texts.csv", index=False)
    texts = ("--categorical", "c", "--impute", "median")
    worked("fit", base / "table.csv", "--method", "svm", "--out", base / "svm.skops")
    worked("fit", base / "table.csv", "--method", "cpm", "--set", "n_init=1", "--out", base / "cpm.skops")
    worked("fit", base / "texts.csv", "--method", "svm", *texts, "--out", base / "texts.skops")
    return reported(base, USES, UNUSED)


@pytest.mark.parametrize("line", USES)
def test_command_imports_what_it_uses(imported, line):
    """A command on a saved model imports neither cvxpy nor what else it does not use."""
    status, found, said = imported[line]
    assert status == 0, said
    assert set(found) <= set(USES[line])


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
