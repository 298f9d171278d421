"""The example notebooks run from top to bottom, and every result that they end a cell with is shown."""

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

    config = Config()
    config.HistoryManager.enabled = False
    one = InteractiveShell.instance(config=config, ipython_dir=str(tmp_path_factory.mktemp("ipython")))
    one.display_formatter.active_types = [
        "text/html",
        "text/plain",
    ]  # that figures are PNGs is in test_figures
    yield one
    InteractiveShell.clear_instance()


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_shows_results(path, shell):
    """A notebook runs from top to bottom, and shows results as HTML and pictures."""
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
            rich = {"text/html"} & set(data) | (
                {"image/png"} if hasattr(done.result, "_repr_png_") else set()
            )
            assert rich or len(data["text/plain"].splitlines()) <= 10, f"cell {number} shows a long text"
            shown += rich
    assert {"text/html", "image/png"} <= set(shown)


def test_notebooks_are_valid():
    """The notebooks are what Jupyter reads, and have no outputs that no test has seen."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    assert len(NOTEBOOKS) >= 5
    for path in NOTEBOOKS:
        nbformat.validate(nbformat.read(path, as_version=4))
        assert all(cell.get("outputs", []) == [] for cell in cells_of(path))
