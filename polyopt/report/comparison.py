"""`write_report`: a comparison as one HTML page that needs no network.

Each data set has a section: of repeated runs first the means, the differences and every single fit, then a
table and pictures of each method. A last section measures every solver against one proven bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np
import scipy.sparse as sp

from polyopt.base.files import write_text
from polyopt.base.text import cut_short, escape, in_picture, visible
from polyopt.compare.comparison import Comparison, Row
from polyopt.compare.data import Prepared
from polyopt.compare.results import Proof
from polyopt.compare.tables import CLAIMS, SIZES, duration, number, points, span
from polyopt.compare.trace import trace
from polyopt.methods.programs import find_programs
from polyopt.methods.registry import BUILT_IN, METHODS, answering_for
from polyopt.plots import convergence, decision_boundary, gaps, multipliers
from polyopt.plots.figure import CLASSES, INK, Panels, svg
from polyopt.report.frame import (
    Contents,
    cells_table,
    columns,
    framed,
    head_cells,
    part,
    scrolling,
    table_row,
)
from polyopt.report.programs import program_section

_MAX_POINTS = 1500  # samples of a boundary: each is a shape in the page


@dataclass(frozen=True)
class Picture:
    """An SVG element, what it shows in short, and a caption of whole sentences."""

    image: str
    label: str
    caption: str


def pictures_of(data: Prepared, rows: list[Row]) -> list[Picture]:
    """Outputs, boundary in the plane, multipliers and run of one method on one data set of two classes."""
    method = METHODS[rows[0].method]
    ended = [row for row in rows if row.estimator is not None]
    exact = next((row for row in ended if row.solver == "exact"), None)
    fast = next((row for row in ended if row.solver != "exact"), None)
    fitted = exact or fast
    drawn: list[Callable[[], Picture]] = [] if fitted is None else [lambda: _outputs(data, fitted)]
    is_plane = data.X_train.shape[1] == 2 and not sp.issparse(data.X_train)
    if fitted is not None and is_plane and data.X_train.shape[0] <= _MAX_POINTS:
        drawn.append(lambda: _boundary(data, fitted))
    if exact is not None:
        drawn.append(lambda: _multipliers_of(exact))
    if fast is not None and len(trace(fast.estimator)):
        drawn.append(lambda: _run(data, fast, exact))
    pictures = []
    for draw in drawn:
        try:
            with answering_for(method):
                pictures.append(draw())
        except RuntimeError as error:
            if method.name in BUILT_IN:
                raise
            warnings.warn(f"a picture is left out. {error}", UserWarning, stacklevel=2)
    return pictures


def _outputs(data: Prepared, row: Row) -> Picture:
    """Return the outputs of the model of the table on the test samples, by class."""
    method, f = METHODS[row.method], row.estimator.decision_function(data.X_test)
    with Panels(None, 5.0, 4.6) as panels:
        axes = panels.axes()
        edges = np.histogram_bin_edges(f, 30).tolist()
        for label, name, (colour, _) in zip(row.estimator.classes_, data.target_names, CLASSES, strict=True):
            own, shown = f[data.y_test == label], in_picture(_name(str(name)))
            axes.hist(own, edges, histtype="stepfilled", alpha=0.3, lw=0, color=colour)
            axes.hist(own, edges, histtype="step", lw=1.4, color=colour, label=shown)
        axes.axvline(0.0, color=INK, lw=1.2, label="f = 0")
        axes.set(xlabel="output f of the test sample", ylabel="samples")
        axes.grid(axis="y")
        panels.legend(3)
    caption = (
        f"Of the model in the table ({row.solver}). Samples of the first class belong left of 0, those of "
        f"the second right of it; those on the wrong side are the test error, {100 * row.test_error:.1f} %."
    )
    return Picture(svg(panels.drawn, f"Outputs of {method.title} on {data.name}"), "Outputs", caption)


def _boundary(data: Prepared, row: Row) -> Picture:
    """Return the boundary of the model of the table, in the plane of its two features."""
    names, classes = ("x₁ (scaled)", "x₂ (scaled)"), [_name(str(name)) for name in data.target_names]
    X, y = data.X_train, data.y_train
    figure = decision_boundary(row.estimator, X, y, axis_names=names, class_names=classes)
    caption = f"Of the model in the table ({row.solver}), with the training samples."
    label = f"Decision boundary of {METHODS[row.method].title} on {data.name}"
    return Picture(svg(figure, label), "Decision boundary", caption)


def _name(text: str) -> str:
    """Return a class's name for a legend: no formula, never left out, cut to its room."""
    text = visible(text).strip() or "(no name)"
    return cut_short(text, 28)


def _multipliers_of(row: Row) -> Picture:
    figure = multipliers(row.estimator.duals_, B=getattr(row.estimator, "B", None))
    caption = (
        "Of the exact solution on all features. Above, the multipliers by size, zeros left out; below, each "
        "against its sample's output f."
    )
    return Picture(svg(figure, f"Multipliers of {row.method} on {row.data}"), "Multipliers", caption)


def _run(data: Prepared, row: Row, exact: Row | None) -> Picture:
    history = trace(row.estimator)
    reference = None if exact is None else exact.objective
    figure = convergence(history, reference=reference, unit=METHODS[row.method].unit)
    caption = f"The run of the fast solver ({row.solver}) on all features"
    caption += f": its objective{' and bound' if 'bound' in history else ''} as it went."
    return Picture(svg(figure, f"Run of {row.solver} for {row.method} on {row.data}"), "The run", caption)


_COLUMNS = columns(
    "method*, solver*, objective, proven bound, gap, relative, residual, worst at*, claim*, size, "
    "test error, seconds"
)
_MEANS = columns(
    "method*, solver*, fits, failed, objective, proven bound, largest gap, weakest claim*, size, "
    "test error %, interval, seconds"
)
_APART = columns("method*, less*, splits, points, interval, so the first is*")
_FITS = columns(
    "method*, solver*, split, seed, settings*, objective, proven bound, gap, claim*, size, test error %, "
    "seconds, status*"
)
_TOLD = "Relative gap from each solver's objective to the bound on all points, and its seconds."
_CAPTION = (
    "A line is the run of a proving solver, from its best point to its bound as they were (of several "
    "classes there is none); a mark is where a solver ended, from its objective to the bound that was proven "
    "in the end."
)


def write_report(
    comparison: Comparison, path: str | Path, *, on_step: Callable[[str], None] | None = None
) -> Path:
    """Write a comparison as one self-contained page.

    Parameters
    ----------
    comparison : Comparison
        What :func:`polyopt.compare.compare` gave.
    path : str or Path
        The file to write, in UTF-8; one that is there is replaced.
    on_step : callable, optional
        Called with a few words before each set of pictures is drawn, and before the file is written; what it
        raises ends the work, and leaves the file as it was.
    """
    contents = Contents()
    sections = [_data_section(comparison, data, on_step, contents) for data in comparison.datasets]
    if proofs := comparison.proofs():
        title = contents.heading(2, "how far from proven", "How far from proven")
        sections.append(_proof_section(proofs, title))
    reading = contents.heading(2, "how to read it", "How to read it")
    programs = contents.heading(2, "the programs", "The programs")
    stated = dict.fromkeys((row.method, row.program) for row in comparison.rows)
    mathematics = "\n".join(_programs(name, program, contents) for name, program in stated)
    body = Template(part("page.html")).substitute(
        summary=escape(_summary(comparison)), contents=contents.nav(), reading=reading,
        sections="\n".join(sections), programs=f"{programs}\n{mathematics}",
        notes="\n".join(f"<li>{escape(note)}</li>" for note in comparison.notes()),
        claims="\n".join(f"<dt>{_badge(k)}</dt><dd>{escape(c.meaning)}</dd>" for k, c in CLAIMS.items()),
    )  # fmt: skip
    if on_step is not None:
        on_step("the page")
    write_text(Path(path), framed("polyopt: exact and fast, side by side", body, wide=True))
    return Path(path)


def _summary(comparison: Comparison) -> str:
    methods = _counted(len({row.method for row in comparison.rows}), "method")
    text = (
        f"{methods} on {', '.join(data.name for data in comparison.datasets)}; "
        f"{_counted(len(comparison.rows), 'fit')}, certified, in {comparison.seconds:.0f} s."
    )
    return text + (" Interrupted before its end." if comparison.interrupted else "")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _data_section(
    comparison: Comparison, data: Prepared, on_step: Callable[[str], None] | None, contents: Contents
) -> str:
    rows = [row for row in comparison.first_rows if row.data == data.name]
    parts = [
        f"<section>{contents.heading(2, data.name, escape(data.name))}",
        f"<p class='quiet'>{escape(data.summary)}</p>",
        _repeats_section(comparison, data.name) if comparison.is_repeated else "",
        _table(rows),
    ]
    two_classes = len(np.unique(data.y_train)) == 2
    if not two_classes:
        parts.append("<p class='quiet'>Pictures are drawn of data with two classes.</p>")
    for name in dict.fromkeys(row.method for row in rows) if two_classes else ():
        mine = [row for row in rows if row.method == name]
        if all(row.estimator is None for row in mine):
            continue
        if on_step is not None:
            on_step(f"pictures of {name} on {data.name}")
        settings = f" <span class='quiet'>{escape(mine[0].settings)}</span>"
        parts.append(contents.heading(3, f"{data.name}-{name}", escape(METHODS[name].title), settings))
        parts.append("<div class='pictures'>")
        parts += [_figure(picture) for picture in pictures_of(data, mine)]
        parts.append("</div>")
    return "\n".join([*parts, "</section>"])


def _repeats_section(comparison: Comparison, name: str) -> str:
    """Means over splits and seeds, differences between methods, and the single fits, of one data set."""

    def claim(name: str) -> str:
        return f"{CLAIMS[name].mark} {CLAIMS[name].word}"

    means = [
        (one.method, one.solver, str(one.fits), str(one.failed), number(one.objective), number(one.bound),
         _small(one.relative_gap), claim(one.claim),
         "–" if np.isnan(one.complexity) else f"{one.complexity:.1f} {SIZES[one.counts]}",
         points(one.test_error), span(one.test_error_low, one.test_error_high), duration(one.seconds))
        for one in comparison.summaries() if one.data == name
    ]  # fmt: skip
    apart = [
        (f"{one.method} ({one.solver})", f"{one.other} ({one.other_solver})", str(one.splits),
         points(one.difference, True), span(one.low, one.high, True), one.verdict)
        for one in comparison.differences() if one.data == name
    ]  # fmt: skip
    fits = [
        (row.method, row.solver, str(row.split), str(row.seed), row.settings, number(row.objective),
         number(row.bound), _small(row.relative_gap), claim(row.claim),
         "–" if row.complexity is None else f"{row.complexity} {SIZES[row.counts]}",
         points(row.test_error), duration(row.seconds), row.status)
        for row in comparison.rows if row.data == name
    ]  # fmt: skip
    parts = ["<h3>Means over splits and seeds</h3>", cells_table(_MEANS, means)]
    if apart:
        parts += ["<h3>Differences of test error, in points</h3>", cells_table(_APART, apart)]
    parts.append(f"<details><summary>All {len(fits)} fits</summary>{cells_table(_FITS, fits)}</details>")
    parts.append("<h3>The first split and seed</h3>")
    return "\n".join(parts)


def _proof_section(proofs: list[Proof], title: str) -> str:
    """Gap of each solver to the bound on all points, as a table and as a picture."""
    solvers = list(dict.fromkeys(solver for proof in proofs for solver in proof.objectives))
    head = columns("data*, method*, best, proven bound") + [(name, "") for name in solvers]
    body = []
    for proof in proofs:
        best = min(proof.objectives.values())
        cells = [escape(proof.data), escape(proof.method), number(best), number(proof.bound)]
        for name in solvers:
            text = "–"
            if name in proof.gaps:
                text = f"{100 * proof.gaps[name]:.3g} % in {duration(proof.seconds[name])} s"
            cells.append(text)
        body.append(table_row(cells, head))
    table = scrolling(head_cells(head), "\n".join(body), "comparison")
    return (
        f"<section>{title}<p class='quiet'>{_TOLD}</p>{table}"
        f"<div class='pictures'>{_figure(_gap_picture(proofs))}</div></section>"
    )


def _gap_picture(proofs: list[Proof]) -> Picture:
    several = len({proof.method for proof in proofs}) > 1
    names = [f"{proof.method} on {proof.data}" if several else proof.data for proof in proofs]
    runs = {name: proof.run for name, proof in zip(names, proofs, strict=True)}
    ends = {
        name: {solver: (proof.seconds[solver], gap) for solver, gap in proof.gaps.items()}
        for name, proof in zip(names, proofs, strict=True)
    }
    return Picture(svg(gaps(runs, ends), "Gap against time"), "Gap against time", _CAPTION)


def _figure(picture: Picture) -> str:
    caption = f"<b>{escape(picture.label)}.</b> {escape(picture.caption)}"
    return f"<figure>{picture.image}<figcaption>{caption}</figcaption></figure>"


def _table(rows: list[Row]) -> str:
    body, previous = [], ""
    for row in rows:
        first = row.method != previous
        body.append(table_row(_cells(row, first), _COLUMNS, f" class='{'first' if first else ''}'"))
        if row.estimator is None:
            status = f"<td colspan='{len(_COLUMNS)}' class='text quiet'>{escape(row.status)}</td>"
            body.append(f"<tr class='note'>{status}</tr>")
        previous = row.method
    return scrolling(head_cells(_COLUMNS), "".join(body), "comparison", sortable=True)


def _small(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.1e}"


def _cells(row: Row, first: bool) -> list[str]:
    name = escape(row.method)
    size = "–" if row.complexity is None else f"{row.complexity} {SIZES[row.counts]}"
    error = "–" if np.isnan(row.test_error) else f"{100 * row.test_error:.1f} %"
    return [
        name if first else f"<span class='again'>{name}</span>", escape(row.solver),
        number(row.objective), number(row.bound),
        _small(row.gap), _small(row.relative_gap), _small(row.residual), escape(row.residual_at),
        _badge(row.claim), size, error, f"{row.seconds:.2f}",
    ]  # fmt: skip


def _badge(claim: str) -> str:
    badge = CLAIMS[claim]
    return f"<span class='badge {badge.style}'>{badge.mark} {escape(badge.word)}</span>"


def _programs(name: str, primal: str, contents: Contents) -> str:
    """Return the mathematics of a method with this primal program, and its dual, for those who open it."""
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
