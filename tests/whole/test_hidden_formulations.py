"""A user's own module named ``formulations`` beside his script, which Python finds before ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import polyopt

ROOT = Path(polyopt.__file__).parent.parent


def started(script, *first):
    """Run a script with these folders before polyopt's on Python's path."""
    path = os.pathsep.join(str(folder) for folder in (*first, ROOT))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )


@pytest.mark.parametrize("hiding", ["formulations.py", "formulations/__init__.py"])
@pytest.mark.parametrize("where", ["beside the script", "on the path"])
@pytest.mark.parametrize(
    "script", ["import polyopt", "import formulations, polyopt"], ids=["after", "before"]
)
def test_a_module_that_hides_ours_is_named(tmp_path, hiding, where, script):
    """``import polyopt`` ends in one sentence with the path of the file that hides."""
    own = tmp_path / "own"
    own.mkdir()
    place = (tmp_path if where == "beside the script" else own) / hiding
    place.parent.mkdir(exist_ok=True)
    place.write_text("", encoding="utf-8")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    last = started(tmp_path / "script.py", own).stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {place} hides the package 'formulations' of polyopt")


@pytest.mark.parametrize("name", ["formulation.py", "formulations/data.csv", "formulations/clock.py"])
def test_what_hides_nothing_is_left_alone(tmp_path, name):
    """Other names, and folders that are no packages, are found after ours."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "script.py").write_text(
        "import polyopt; from polyopt.methods import METHODS", encoding="utf-8"
    )
    done = started(tmp_path / "script.py")
    assert (done.returncode, done.stderr) == (0, "")
