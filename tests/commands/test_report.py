"""The report stands alone, says what the comparison says, and its pictures show what they claim."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from helpers import odd_methods
from helpers.commands import registry
from helpers.pages import Tags
from matplotlib.colors import to_hex

from polyopt.base.text import escape, visible
from polyopt.compare import compare
from polyopt.compare.tables import CLAIMS, number
from polyopt.datasets import Dataset
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.svm import SVM
from polyopt.methods.programs import find_programs
from polyopt.plots import convergence, decision_boundary
from polyopt.plots.figure import CLASSES
from polyopt.report import write_report
from polyopt.report.programs import mathml

NAME = "<blobs & script>"


def blobs(n=60, m=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    return rng.normal(size=(n, m)) + 1.3 * y[:, None], y


@pytest.fixture(scope="module")
def comparison():
    X, y = blobs()
    data = Dataset(NAME, X, y, target_names=("no", "yes"))
    return compare(data, ["rmm", "rmm-rbf", "cpm"], settings={"n_init": 1})


@pytest.fixture(scope="module")
def page(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "out.html"
    assert write_report(comparison, path) == path
    return path.read_text(encoding="utf-8")


def test_page_runs_own_script_alone(page):
    """Nothing is fetched, and only the script of the page is run, by the digest of its policy."""
    found = Tags(page)
    assert found.loads == []
    assert [attributes for tag, attributes in found.tags if tag == "script"] == [{}]
    script = page.split("<script>")[1].split("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    rule = next(attributes["content"] for _, attributes in found.tags if "http-equiv" in attributes)
    assert rule.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in rule
    assert not re.search(r"url\(\s*['\"]?(?!#)", page), "a style sheet fetches something"
    assert "@import" not in page


def test_pictures_are_there(comparison, page):
    """Each method has its outputs, multipliers and run, drawn as lines."""
    pictures = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert len(pictures) == 3 * 3  # outputs, multipliers and run, for each method
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("aria-label")
        assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 10
    for image in re.findall(r"data:image/png;base64,[^\"]*", page):
        pytest.fail(f"a picture of {len(image)} bytes is rasterised for a few samples")


def test_references_have_unique_places(page):
    """No two elements share an id, and every reference and heading has one."""
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    ids += (named := re.findall(r"<[a-z0-9]+ id='([^']+)'", page))
    assert len(ids) == len(set(ids))
    assert {"blobs-script", "how-to-read-it", "the-programs", "blobs-script-rmm", "program-rmm"} <= set(named)
    used = set(re.findall(r"""href=["']#([^"']+)""", page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert used <= set(ids)
    assert set(named) <= used, "a heading that the contents leave out"


def test_pictures_take_page_colours(page):
    """Colours of pictures are those of the page, in the light and in the dark."""
    named = set(re.findall(r"var\(--([a-z-]+)\)", page))
    light, dark = page.split("@media screen and (prefers-color-scheme: dark)")
    for name in named:
        assert f"--{name}:" in light
        assert f"--{name}:" in dark.split("}")[0]
    for picture in re.findall(r"<svg.*?</svg>", page, flags=re.S):
        assert not re.search("#[0-9a-f]{6}", picture), "a colour that is the same in the dark"


def test_page_has_numbers_of_table(comparison, page):
    """The numbers, claims, settings and notes of the comparison are on the page."""
    text = Tags(page).text
    for row in comparison.rows:
        for value in (number(row.objective), number(row.bound), f"{row.gap:.1e}", row.residual_at):
            assert value in text
        assert f"{CLAIMS[row.claim].mark} {CLAIMS[row.claim].word}" in text
        assert row.settings in text
    for note in comparison.notes():
        assert note in text


def test_names_are_escaped(page):
    """A name with markup is shown as it is."""
    assert NAME not in page
    assert "&lt;blobs &amp; script&gt;" in page
    assert NAME in Tags(page).text


HOSTILE = "<script>alert(1)</script>'\"> onerror=x \x1b[31m \u202e \ud83d $x_$ & more"
SHOWN = "<script>alert(1)</script>'\"> onerror=x \\x1b[31m \\u202e \\ud83d $x_$ & more"


def test_text_from_outside_does_nothing(comparison, tmp_path):
    """Names of data and of classes, a setting, a status, as files and other packages may have them."""
    data = replace(comparison.datasets[0], name=HOSTILE, target_names=(f"_{HOSTILE}", "$\\x"))
    row = next(row for row in comparison.rows if row.solver != "exact")
    rows = [
        replace(row, data=HOSTILE, settings=HOSTILE, residual_at=HOSTILE),
        replace(row, data=HOSTILE, solver=HOSTILE, status=HOSTILE, estimator=None),
    ]
    found = replace(comparison, datasets=[data], rows=rows)
    text = write_report(found, tmp_path / "h.html").read_text(encoding="utf-8")
    page = Tags(text)
    assert page.loads == []
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    # heading, contents, summary, settings, worst row, solver, status; twice as an attribute of a picture
    assert page.text.count(SHOWN) >= 7
    assert sum(SHOWN in (attributes.get("aria-label") or "") for _, attributes in page.tags) == 2
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    for picture in re.findall(r"<svg.*?</svg>", text, flags=re.S):
        ElementTree.fromstring(picture)
    assert "\u2060_<script>alert(1)</script>'…" in page.text, "the class whose name a legend would leave out"
    assert r"$\x" in page.text, "the class whose name would be a broken formula"


@pytest.mark.parametrize(
    ("text", "seen"),
    [("\x00\x1b\x9b", r"\x00\x1b\x9b"), ("a\nb\tc", r"a\nb\tc"),
     ("\u2067x\u2069\u200f", r"\u2067x\u2069\u200f"),
     ("\udc80", r"\udc80"), ("a\u200db", r"a\u200db"), ("naïve 数 é \u05d0", "naïve 数 é \u05d0"), ("", "")],
)  # fmt: skip
def test_unseen_characters_are_written_out(text, seen):
    """Control and direction characters are written by their numbers, all others stay."""
    assert visible(text) == seen
    seen = visible(text, keep="\n\t")  # a page breaks its lines itself
    assert escape(text + "<&>'\"") == seen + "&lt;&amp;&gt;&#x27;&quot;"


def test_programs_are_stated(page):
    """The programs of the methods stand on the page with every row and its meaning."""
    text = Tags(page).text
    for name in ("rmm.qp", "rmm.qp_dual", "cpm.fixed_assignment_sum"):
        program = find_programs(name)[0]
        assert escape(program.objective_latex) in page
        assert all(mathml(program.row_latex(row)) in page and row.meaning in text for row in program.rows)
    assert page.count("<math") > 20


def test_first_picture_is_of_table_model(comparison, page):
    """The picture of the outputs comes first in each method's part, with the error of the table."""
    assert "refit" not in page
    data = comparison.datasets[0]
    errors = re.findall(r"<b>Outputs.</b>.*?test error, ([\d.]+) %", page, flags=re.S)
    exact = [row for row in comparison.rows if row.solver == "exact"]
    assert len(errors) == len(exact)
    for error, row in zip(errors, exact, strict=True):
        wrong = (row.estimator.decision_function(data.X_test) > 0) != data.y_test
        assert error == f"{100 * wrong.mean():.1f}"
        assert 100 * wrong.mean() == pytest.approx(100 * row.test_error)


def test_interrupted_report_has_no_pictures(tmp_path, interruptible):
    """A report of a run that was interrupted says so, and draws no data of three classes."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    data = Dataset("three", rng.normal(size=(90, 2)) + 3 * y[:, None], y, target_names=("0", "1", "2"))
    with registry(odd_methods.method(odd_methods.InterruptedEarly)):
        found = compare(data, ["svm", "interruptedearly"])
        text = write_report(found, tmp_path / "i.html").read_text(encoding="utf-8")
    assert "Interrupted before its end" in text
    assert "Pictures are drawn of data with two classes" in text
    assert "<svg" not in text


def test_failed_solver_has_no_pictures(tmp_path):
    """A solver that failed is reported by its error, and the other one with its outputs and its run."""
    X, y = blobs()
    with registry(odd_methods.method(odd_methods.Refusing)):
        found = compare(Dataset("b", X, y, target_names=("no", "yes")), ["refusing"])
        text = write_report(found, tmp_path / "f.html").read_text(encoding="utf-8")
    assert "refused &lt;here&gt;" in text
    assert text.count("<svg") == 2


def labels_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_boundary_shows_levels():
    """Levels are where the outputs are 0, ±1 and ±B, rings are support vectors, colours are classes."""
    X, y = blobs(m=2)
    machine = RelativeMarginMachine(B=1.5, kernel="linear", solver="exact").fit(X, y)
    figure = decision_boundary({"T": machine}, X, y, class_names=("no", "yes"), axis_names=("a", "b"))
    axes = figure.axes[0]
    assert labels_of(figure)[:3] == ["f = 0", "f = ±1", "f = ±B = ±1.5"]
    assert {"no", "yes", "support vector"} <= set(labels_of(figure))
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("a", "b", "T")
    levels = {}
    for contour in axes.collections:
        for path in contour.get_paths() if hasattr(contour, "levels") and not contour.filled else ():
            for point in path.vertices[:1]:
                levels.setdefault(round(float(machine.decision_function(point[None])[0]), 2), True)
    assert {0.0, -1.0, 1.0} <= set(levels)
    assert {1.5, -1.5} & set(levels)
    rings = axes.collections[-1].get_offsets()
    np.testing.assert_array_equal(rings, X[machine.support_])
    for value, (colour, _) in zip((0, 1), CLASSES, strict=True):
        drawn = [c for c in axes.collections if c.get_label() == ("no", "yes")[value]]
        np.testing.assert_array_equal(drawn[0].get_offsets(), X[y == value])
        assert to_hex(drawn[0].get_facecolor()[0]) == colour


@pytest.mark.parametrize(
    ("columns", "n_classes", "message"),
    [
        ((0, 1, 2), 2, "two features; X has shape"),
        ((0,), 2, "two features"),
        ((0, 1), 3, "two classes, not 3"),
    ],
)
def test_boundary_needs_plane_and_two_classes(columns, n_classes, message):
    """A boundary is drawn for two features and two classes."""
    X, y = blobs()
    X, y = X[:, columns], y if n_classes == 2 else np.arange(len(y)) % 3
    with pytest.raises(ValueError, match=message):
        decision_boundary(SVM(kernel="linear").fit(X, y), X, y)


def test_run_is_drawn_with_gap():
    """The gap below the run is relative to the value, on a logarithmic scale."""
    history = pd.DataFrame({"iteration": [1, 2, 3], "objective": [10.0, 6.0, 5.0], "bound": [0.0, 4.0, 4.5]})
    figure = convergence(history, reference=4.8, unit="epochs")
    values, gap = figure.axes
    np.testing.assert_allclose(gap.lines[0].get_ydata(), [1.0, 1 / 3, 0.1])
    assert gap.get_yscale() == "log"
    assert gap.get_xlabel() == "epochs"
    assert [t.get_text() for t in values.get_legend().get_texts()] == [
        "objective",
        "proven bound",
        "exact solver",
    ]
    assert values.lines[2].get_ydata()[0] == 4.8
