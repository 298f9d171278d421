"""The example notebooks run from top to bottom, and every result that they end a cell with is shown."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

import polyopt

NOTEBOOKS = sorted((Path(polyopt.__path__[0]) / "handbook" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """The shell of a kernel, in this process: a process for each notebook takes ten times as long."""
    pytest.importorskip("IPython", reason="IPython is not installed: pip install polyopt[notebooks]")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
    # That a figure becomes a picture is in test_figures.
    monkeypatch.setattr(
        "polyopt.plots.picture.Picture.savefig", lambda self, buffer, **how: buffer.write(b"PNG")
    )
    # A new session looks for garbage among all that the tests have left; here it takes longer than the cells.
    monkeypatch.setattr("gc.collect", lambda *_: 0)
    config = Config()
    config.HistoryManager.enabled = False
    one = InteractiveShell.instance(config=config)
    yield one
    monkeypatch.undo()
    InteractiveShell.clear_instance()


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_there_are_some():
    assert len(NOTEBOOKS) >= 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_results(path, shell):
    shell.reset(new_session=False)
    shown = []
    for number, cell in enumerate(cells_of(path)):
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            done = shell.run_cell("".join(cell["source"]), silent=False, store_history=False)
        assert done.success, f"cell {number}: {done.error_in_exec or done.error_before_exec}"
        if done.result is not None:
            data, _ = shell.display_formatter.format(done.result)
            rich = {"text/html", "image/png"} & set(data)
            assert rich or len(data["text/plain"].splitlines()) <= 10, f"cell {number} shows a long text"
            shown += rich
    assert {"text/html", "image/png"} <= set(shown)


def test_none_has_outputs_that_nobody_checked():
    for path in NOTEBOOKS:
        assert all(cell.get("outputs", []) == [] for cell in cells_of(path))


def test_they_are_what_jupyter_reads():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    for path in NOTEBOOKS:
        nbformat.validate(nbformat.read(path, as_version=4))
