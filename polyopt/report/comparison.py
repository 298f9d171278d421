"""`write_report`: a comparison as one HTML page that needs no network.

Each data set has a section with a table, and pictures of each method. A last section compares every solver
with a proven bound.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyopt.base.files import write_text
from polyopt.base.progress import Step, steps
from polyopt.base.text import cut_short, escape, in_picture, visible
from polyopt.compare.comparison import Comparison, Row
from polyopt.compare.data import Prepared
from polyopt.compare.results import Proof
from polyopt.compare.tables import CLAIMS, fit_columns, proof_columns
from polyopt.compare.trace import trace
from polyopt.methods.programs import find_programs
from polyopt.methods.registry import BUILT_IN, METHODS, MethodError, answering_for
from polyopt.plots import convergence, decision_boundary, gaps, multipliers
from polyopt.plots.figure import CLASSES, INK, draw_legend, new_panels, svg
from polyopt.report.frame import Contents, badge, framed, part, rows_table
from polyopt.report.programs import program_section

_MAX_POINTS = 1500  # samples in a picture of the boundary, each a shape in the page


def _picture(figure: Any, alt: str, label: str, caption: str) -> str:
    """Return a figure as HTML with a label and a caption of whole sentences; `alt` is for screen readers."""
    image, text = svg(figure, alt), f"<b>{escape(label)}.</b> {escape(caption)}"
    return f"<figure>{image}<figcaption>{text}</figcaption></figure>"


def pictures_of(data: Prepared, rows: list[Row]) -> list[str]:
    """Draw outputs, boundary in the plane, multipliers and run of one method on data of two classes."""
    method = METHODS[rows[0].method]
    fitted = [row for row in rows if row.estimator is not None]
    exact = next((row for row in fitted if row.solver == "exact"), None)
    fast = next((row for row in fitted if row.solver != "exact"), None)
    functions: list[Callable[[], str]] = []
    if first := exact or fast:
        functions.append(lambda: _outputs(data, first))
        is_plane = data.X_train.shape[1] == 2 and not sp.issparse(data.X_train)
        if is_plane and data.X_train.shape[0] <= _MAX_POINTS:
            functions.append(lambda: _boundary(data, first))
    if exact is not None:
        functions.append(lambda: _multipliers_of(exact))
    if fast is not None and len(trace(fast.estimator)):
        functions.append(lambda: _run(fast, exact))
    pictures = []
    for draw in functions:
        try:
            with answering_for(method):
                pictures.append(draw())
        except MethodError as error:
            warnings.warn(f"a picture is left out. {error}", UserWarning, stacklevel=2)
    return pictures


def _outputs(data: Prepared, row: Row) -> str:
    """Draw the outputs of the model of the table on the test samples, by class."""
    method, f = METHODS[row.method], row.estimator.decision_function(data.X_test)
    with new_panels(5.0, 4.6) as (figure, panels):
        axes = panels[0, 0]
        edges = np.histogram_bin_edges(f, 30).tolist()
        for label, name, (colour, _) in zip(row.estimator.classes_, data.target_names, CLASSES, strict=True):
            of_class = f[data.y_test == label]
            axes.hist(of_class, edges, histtype="stepfilled", alpha=0.3, lw=0, color=colour)
            label = in_picture(_legend_name(str(name)))
            axes.hist(of_class, edges, histtype="step", lw=1.4, color=colour, label=label)
        axes.axvline(0.0, color=INK, lw=1.2, label="f = 0")
        axes.set(xlabel="output f of the test sample", ylabel="samples")
        axes.grid(axis="y")
        draw_legend(figure, 3)
    caption = (
        f"Of the model in the table ({row.solver}). Samples of the first class belong left of 0, those of "
        f"the second right of it; those on the wrong side are the test error, {100 * row.test_error:.1f} %."
    )
    return _picture(figure, f"Outputs of {method.title} on {data.name}", "Outputs", caption)


def _boundary(data: Prepared, row: Row) -> str:
    """Draw the boundary of the model of the table, in the plane of its two features."""
    names, classes = ("x₁ (scaled)", "x₂ (scaled)"), [_legend_name(str(name)) for name in data.target_names]
    X, y = data.X_train, data.y_train
    figure = decision_boundary(row.estimator, X, y, axis_names=names, class_names=classes)
    caption = f"Of the model in the table ({row.solver}), with the training samples."
    label = f"Decision boundary of {METHODS[row.method].title} on {data.name}"
    return _picture(figure, label, "Decision boundary", caption)


def _legend_name(text: str) -> str:
    """Return a class's name for a legend, which is not empty and at most 28 letters long."""
    text = visible(text).strip() or "(no name)"
    return cut_short(text, 28)


def _multipliers_of(row: Row) -> str:
    figure = multipliers(row.estimator.duals_, B=getattr(row.estimator, "B", None))
    caption = (
        "Multipliers of the exact solution on all features: above by size, without zeros, below against the "
        "sample's output f."
    )
    return _picture(figure, f"Multipliers of {row.method} on {row.data}", "Multipliers", caption)


def _run(row: Row, exact: Row | None) -> str:
    history = trace(row.estimator)
    reference = None if exact is None else exact.objective
    figure = convergence(history, reference=reference, unit=METHODS[row.method].unit)
    values = "objective and bound" if "bound" in history else "objective"
    caption = f"The {values} by iteration of the fast solver ({row.solver}) on all features."
    return _picture(figure, f"Run of {row.solver} for {row.method} on {row.data}", "The run", caption)


_COMPARED = (
    "Relative gap from each solver's objective to the bound on all points, in percent, and its seconds."
)
_CAPTION = (
    "A line is the run of a proving solver, from its best point to its bound at that time (not for several "
    "classes); a marker is the end of a solver, from its objective to the final bound."
)


def write_report(comparison: Comparison, path: str | Path) -> Path:
    """Write a comparison as one page; replace a file."""
    contents = Contents()
    with steps(max(len({(row.data, row.method) for row in comparison.rows}), 1), "method") as step:
        sections = [_data_section(comparison, data, step, contents) for data in comparison.datasets]
    if proofs := comparison.proofs():
        title = contents.heading(2, "how far from proven", "How far from proven")
        table = rows_table(proof_columns(proofs), proofs, "comparison")
        picture = f"<div class='pictures'>{_gap_picture(proofs)}</div>"
        sections.append(f"<section>{title}<p class='quiet'>{_COMPARED}</p>{table}{picture}</section>")
    reading = contents.heading(2, "how to read it", "How to read it")
    programs = contents.heading(2, "the programs", "The programs")
    pairs = dict.fromkeys((row.method, row.program) for row in comparison.rows)
    mathematics = "\n".join(_programs(name, program, contents) for name, program in pairs)
    body = Template(part("page.html")).substitute(
        summary=escape(_summary(comparison)), contents=contents.nav(), reading=reading,
        sections="\n".join(sections), programs=f"{programs}\n{mathematics}",
        notes="\n".join(f"<li>{escape(note)}</li>" for note in comparison.notes()),
        claims="\n".join(f"<dt>{_badge(k)}</dt><dd>{escape(c.meaning)}</dd>" for k, c in CLAIMS.items()),
    )  # fmt: skip
    write_text(Path(path), framed("polyopt: exact and fast, side by side", body, wide=True))
    return Path(path)


def _summary(comparison: Comparison) -> str:
    n_methods, n_fits = len({row.method for row in comparison.rows}), len(comparison.rows)
    text = (
        f"{n_methods} method{'s' * (n_methods != 1)} on {', '.join(d.name for d in comparison.datasets)}; "
        f"{n_fits} fit{'s' * (n_fits != 1)}, certified, in {comparison.seconds:.0f} s."
    )
    return text + (" Interrupted before its end." if comparison.interrupted else "")


def _data_section(comparison: Comparison, data: Prepared, step: Step, contents: Contents) -> str:
    rows = [row for row in comparison.rows if row.data == data.name]
    parts = [
        f"<section>{contents.heading(2, data.name, escape(data.name))}",
        f"<p class='quiet'>{escape(data.summary)}</p>",
        rows_table(
            fit_columns(rows), rows, "comparison", sortable=True, group=lambda row: row.method,
            is_group_named=True, note=lambda row: "" if row.estimator is not None else row.status,
        ),
    ]  # fmt: skip
    is_binary = len(np.unique(data.y_train)) == 2
    if not is_binary:
        parts.append("<p class='quiet'>Pictures are drawn of data with two classes.</p>")
    for name in dict.fromkeys(row.method for row in rows) if is_binary else ():
        fits = [row for row in rows if row.method == name]
        if all(row.estimator is None for row in fits):
            continue
        step.name(f"pictures of {name} on {data.name}")
        settings = f" <span class='quiet'>{escape(fits[0].settings)}</span>"
        parts.append(contents.heading(3, f"{data.name}-{name}", escape(METHODS[name].title), settings))
        parts.append("<div class='pictures'>")
        parts += pictures_of(data, fits)
        step.done()
        parts.append("</div>")
    return "\n".join([*parts, "</section>"])


def _gap_picture(proofs: list[Proof]) -> str:
    several = len({proof.method for proof in proofs}) > 1
    names = [f"{proof.method} on {proof.data}" if several else proof.data for proof in proofs]
    runs = {name: proof.run for name, proof in zip(names, proofs, strict=True)}
    ends = {
        name: {solver: (proof.seconds[solver], gap) for solver, gap in proof.gaps.items()}
        for name, proof in zip(names, proofs, strict=True)
    }
    return _picture(gaps(runs, ends), "Gap against time", "Gap against time", _CAPTION)


def _badge(claim: str) -> str:
    return badge(f"{CLAIMS[claim].mark} {escape(CLAIMS[claim].word)}", CLAIMS[claim].colour)


def _programs(name: str, primal: str, contents: Contents) -> str:
    """Return a part to unfold: a method's primal program and its dual."""
    method = METHODS[name]
    pair = next(each for each in (method.programs, *method.variants.values()) if each[0] == primal)
    try:
        programs = [find_programs(program)[0] for program in pair]
        sections = "".join(program_section(program) for program in programs)
    except (RuntimeError, ValueError) as error:
        if method.name in BUILT_IN:
            raise
        return f"<p class='quiet'>The programs of {escape(name)} are left out: {escape(str(error))}</p>"
    anchor = contents.anchor(f"program-{name}", escape(name), level=3)
    return (
        f"<details id='{anchor}'><summary><b>{escape(method.name)}</b> {escape(method.title)} "
        f"<span class='quiet'>{escape(programs[0].source)}</span></summary>"
        f"{sections}</details>"
    )
