"""What a notebook shows of a result: short, whole, escaped, and within ten lines as text."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.pages import Tags

import polyopt
from formulations import rmm
from formulations.language.display import Shown, Summary, Table, text_of
from formulations.language.solution import Solution, Status
from formulations.language.toy_data import two_blobs
from polyopt import certify_rmm, rmm_path
from polyopt.certificates import Certificate, Claim, Residual
from polyopt.margin.path import PathPoint
from polyopt.report.programs import html_of
from polyopt.sparse.cross_entropy import L0Search, Work

HOSTILE = (
    """<script>document.title='run'</script>'"><img src=http://x.test/a onerror=alert(1)>\x1b\u202e&$x$"""
)


@pytest.fixture(scope="module")
def things():
    X, y = two_blobs(12, 2, 0)
    program = rmm.qp(X, y, B=1.5)
    solution = program.solve()
    path = rmm_path(X, y, bounds=[2.0, 1.5])
    search = L0Search(2.0, Work(programs=7), [], [2.5], 4, True)
    certificate = certify_rmm(X, y, B=1.5, w=0.9 * solution["w"], b=0.9 * float(solution["b"]))
    return {
        "program": program, "solution": solution, "certificate": certificate, "path": path,
        "point": path[1], "search": search,
    }  # fmt: skip


def test_results_say_what_is_proven(things):
    """A certificate shows its sentence, bound and violations, a path its values."""
    certificate, path = things["certificate"], things["path"]
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    text = Tags(certificate._repr_html_()).text
    assert certificate.sentence in text
    assert f"{certificate.dual_value:.10g}" in text
    assert text.count("violated") == sum(not r.relative <= certificate.tol for r in certificate.residuals)
    assert repr(path).splitlines()[0] == "Relative Margin Machines: 3 machines"
    for line, point in zip(repr(path).splitlines()[2:], path, strict=True):
        assert line.split()[:2] == [f"{point.B:.6g}", f"{point.certificate.primal_value:.8g}"]


def test_html_runs_nothing(things):
    """The HTML of each result is whole, folds, and loads and runs nothing."""
    for name, thing in things.items():
        reader = Tags(thing._repr_html_())
        tags = {tag for tag, _ in reader.tags}
        assert reader.loads == []
        assert not {"script", "img"} & tags, name
        assert name == "program" or "details" in tags
    assert things["program"]._repr_html_().count("<math") >= 8
    assert "color: inherit" in things["search"]._repr_html_(), "in a dark notebook its letters are light"


def test_hostile_names_are_text():
    """A name that is a script is text in the HTML, and within ten lines as text."""
    residual = Residual("primal", HOSTILE, 1.0, 1.0, 2)
    hostile = Certificate(HOSTILE, Claim.NONE, 2.0, 1.0, (residual,), note=HOSTILE)
    vectors = {HOSTILE: np.array([HOSTILE, ""]), "w": np.zeros(0)}
    solved = Solution(
        Status.FAILED, vectors, vectors, np.nan, None, HOSTILE, history=({HOSTILE: HOSTILE}, {"a": 1.0})
    )
    for thing in (hostile, solved):
        page = thing._repr_html_()
        reader = Tags(page)
        assert not {"script", "img"} & {tag for tag, _ in reader.tags}
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "onerror=alert(1)" in reader.text
        assert len(repr(thing).splitlines()) <= 10


def test_many_rows_are_counted():
    """A long table is cut, and what is left out is counted."""
    rows = tuple((str(i), f"{i / 7:.3f}") for i in range(1000))
    summary = Summary("many", (("a", "b " * 500),), (Table("all", ("i", "x"), rows, True),))
    reader = Tags(html_of(summary))
    assert [tag for tag, _ in reader.tags].count("tr") == 1 + 1 + 400, (
        "the fact, the head of the table, and its rows"
    )
    assert "and 600 more" in reader.text
    lines = text_of(summary).splitlines()
    assert len(lines) == 10
    assert lines[-1] == "  … and 995 more"


def test_path_is_a_list(things):
    """A path is a list of its points, and is the same after pickling."""
    path = things["path"]
    assert isinstance(path, list)
    assert [point.B for point in path] == [np.inf, 2.0, 1.5]
    again = pickle.loads(pickle.dumps(path))
    assert repr(again) == repr(path)
    assert [point.B for point in again] == [point.B for point in path]
    assert isinstance(path[0], PathPoint)


def test_formula_is_shown_without_pages(monkeypatch, things):
    """The ground floor stands alone: until somebody has pages, its programs have Markdown."""
    assert things["program"]._repr_html_().startswith("<div class='polyopt'>")
    monkeypatch.delattr(polyopt, "__drawer__")
    assert things["program"]._repr_html_() is None
    assert things["program"]._repr_markdown_().startswith("**Relative Margin Machine")


def test_changed_result_shows_change(things):
    """A changed result shows what it is now."""
    solution = replace(things["solution"], objective=-1.25)
    assert "-1.25" in repr(solution)
    assert isinstance(solution, Shown)
