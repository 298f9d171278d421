"""A read-only installation, used by somebody whose home cannot be written either: containers, other users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import formulations
import polyopt

# Root may write to read-only folders, unless it gives up that privilege.
AS_ANYBODY = [] if os.name == "nt" or os.geteuid() else ["setpriv", "--bounding-set=-dac_override"]
NO_HOME = "/proc/nobody"  # nobody, root included, can make it


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A read-only copy of both packages, a table, and a place for caches."""
    base = tmp_path_factory.mktemp("installation")
    site, work, temporary = base / "site", base / "work", base / "temporary"
    for package in (polyopt, formulations):
        source = Path(package.__file__).parent
        shutil.copytree(source, site / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [site, *(path for path in site.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    work.mkdir()
    temporary.mkdir()
    rows = [f"{(7 * i) % 11},{(5 * i) % 13},{'inside' if (7 * i) % 11 < 5 else 'outside'}" for i in range(40)]
    (work / "table.csv").write_text("\n".join(["a,b,label", *rows]) + "\n", encoding="utf-8")
    yield SimpleNamespace(site=site, work=work, temporary=temporary)
    for folder in folders:
        folder.chmod(0o755)


def called(installation, *arguments):
    """``python *arguments`` by somebody who can write to the folder of work and the temporary one alone."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        [*AS_ANYBODY, sys.executable, *arguments],
        cwd=installation.work,
        env={
            **kept,
            "PYTHONPATH": str(installation.site),
            "HOME": NO_HOME,
            "TMPDIR": str(installation.temporary),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode and "setpriv" in done.stderr:
        pytest.skip("root cannot give up its privilege here")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module", autouse=True)
def is_read_only(installation):
    if AS_ANYBODY and shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and there is no setpriv to give that up")
    try_it = (
        "import os, polyopt; print(os.access(os.path.dirname(polyopt.__file__), os.W_OK), polyopt.__file__)"
    )
    writable, file = called(installation, "-c", try_it).stdout.split()
    assert writable == "False"
    assert file.startswith(str(installation.site))


ONE_AFTER_ANOTHER = """
import sys
from polyopt.cli import app
for line in sys.argv[1:]:
    try:
        app(line.split())
    except SystemExit as end:
        assert not end.code, line
"""


def test_commands_work(installation):
    """Fit, predict, rules, comparison with a report, and help work; matplotlib alone tells of its cache."""
    said = called(
        installation,
        "-c",
        ONE_AFTER_ANOTHER,
        "--help",
        "fit table.csv --method pc-slp --out model.skops",
        "predict model.skops table.csv",
        "rules model.skops",
        "compare --data table.csv --method pc-slp --report report.html",
    ).stderr
    told = [
        line for line in said.lower().splitlines() if "matplotlib" not in line and "mplconfigdir" not in line
    ]
    assert not any(word in line for line in told for word in ("warning", "cannot"))
    assert (installation.work / "report.html").is_file()
