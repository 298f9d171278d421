"""A read-only installation, used by somebody whose home cannot be written either: containers, other users."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import pytest

import formulations
import polyopt

# Root may write to read-only folders, unless it gives up that privilege.
AS_ANYBODY = [] if os.name == "nt" or os.geteuid() else ["setpriv", "--bounding-set=-dac_override"]


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A read-only copy of both packages, a table, and a temporary folder."""
    if AS_ANYBODY and shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and there is no setpriv to give that up")
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
    places = {
        "PYTHONPATH": str(installation.site),
        "HOME": "/proc/nobody",  # which nobody, root included, can make
        "TMPDIR": str(installation.temporary),
        "MPLCONFIGDIR": mpl.get_cachedir(),  # fonts are listed there
    }
    done = subprocess.run(
        [*AS_ANYBODY, sys.executable, *arguments], cwd=installation.work, env={**kept, **places},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if done.returncode and "setpriv" in done.stderr:
        pytest.skip("root cannot give up its privilege here")
    assert done.returncode == 0, done.stderr
    return done


ONE_AFTER_ANOTHER = """
import os, sys
import polyopt
from polyopt.cli import app
print(os.access(os.path.dirname(polyopt.__file__), os.W_OK), polyopt.__file__)
for line in sys.argv[1:]:
    try:
        app(line.split())
    except SystemExit as end:
        assert not end.code, line
"""


def test_commands_work(installation):
    """Fit, predict, rules, comparison with a report, and help work, and say nothing of places to write."""
    done = called(
        installation,
        "-c",
        ONE_AFTER_ANOTHER,
        "--help",
        "fit table.csv --method pc-slp --out model.skops",
        "predict model.skops table.csv",
        "rules model.skops",
        "compare --data table.csv --method pc-slp --report report.html",
    )
    assert done.stdout.startswith(f"False {installation.site}")
    assert not any(word in done.stderr.lower() for word in ("warning", "cannot"))
    assert (installation.work / "report.html").is_file()
