"""Relative Margin Machines: claims and items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.helpers.rmm_page import KERNELS, LINES, PAPER, is_converged
from benchmarks.papers.chapter import (
    Chapter,
    Claim,
    Item,
    NotKeptError,
    Seen,
    mostly,
    shared,
    table_of,
    verdict,
)

__all__ = ["CHAPTER"]

_LOW, _HIGH = ("1", "2", "3", "4"), ("5", "6", "7")  # degrees of the kernel


def _cells() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Cells of the scaling that validation chose, by line, machine and kernel."""
    from benchmarks.rmm_table import kept_cells

    cells = {(row["data"], row["method"], row["kernel"]): row for row in kept_cells() if row["is chosen"]}
    if not cells:
        raise NotKeptError("No line of Table 1 is computed.")
    return cells


def _fewer(method: str, than: str, kernels: tuple[str, ...] = KERNELS) -> tuple[int, int, Iterator[str]]:
    """Cells where a machine has fewer errors than another, of how many, and the means by line."""
    cells = _cells()
    pairs = {
        line: [
            (cells[line, method, k]["errors"], cells[line, than, k]["errors"])
            for k in kernels
            if (line, method, k) in cells and (line, than, k) in cells
        ]
        for line in LINES
    }
    every = [pair for found in pairs.values() for pair in found]
    if not every:
        raise NotKeptError(f"No line of Table 1 has {method} and {than}.")
    means = (
        f"{line}: {np.mean([a for a, _ in found]):.0f} against {np.mean([b for _, b in found]):.0f}"
        for line, found in pairs.items()
        if found
    )
    return sum(a < b for a, b in every), len(every), means


def _better(method: str, than: str, judge: Callable[[float], str]) -> Seen:
    fewer, of, means = _fewer(method, than)
    return judge(fewer / of), f"Fewer errors in {shared(fewer, of)} cells; means, {'; '.join(means)}."


def _matches() -> Seen:
    (low, of_low, _), (high, of_high, _) = (_fewer("RMM", "Sigma-SVM", k) for k in (_LOW, _HIGH))
    figures = f"The RMM has fewer errors in {shared(low, of_low)} cells of degrees 1 to 4, in "
    return verdict(
        float(low / of_low > 0.5 > high / of_high)
    ), figures + f"{shared(high, of_high)} of 5 to 7."


def stretched() -> Seen:
    angles = table_of("rmm_figure1")
    svm, rmm = np.ptp(angles["SVM"]), np.ptp(angles["RMM, B = 1"])
    return verdict(float(svm > 1.0 > rmm)), (
        f"The SVM's boundary turns by {svm:.0f} degrees, seen on the axes as they were; the RMM's by "
        f"{rmm:.2g}."
    )


def _slopes() -> Seen:
    rows = table_of("growth")
    slopes = rows[rows["n"] == "fitted slope"].iloc[0]
    cold = slopes[["RMM, B1", "RMM, B2", "RMM, B3"]].astype(float)
    return verdict(float((cold - slopes["SVM"]).abs().max() < 0.25)), (
        f"Seconds grow as n to the power {slopes['SVM']:.2f} (SVM) and {cold.min():.2f} to {cold.max():.2f} "
        "(RMM)."
    )


def _warm() -> Seen:
    rows = table_of("growth")
    rows = rows[rows["n"] != "fitted slope"]
    shares = np.array(
        [rows[f"RMM, {B}, warm"].astype(float) / rows[f"RMM, {B}"].astype(float) for B in ("B1", "B2", "B3")]
    )
    means = np.exp(np.log(shares).mean(axis=1))
    figures = ", ".join(f"{mean:.2f} (B{k})" for k, mean in enumerate(means, 1))
    fewer = int((shares < 1.0).sum())
    return (
        mostly(fewer / shares.size),
        f"Warm starts take {figures} of the cold time, less in {shared(fewer, shares.size)} fits.",
    )


def _bounds() -> Seen:
    rows = table_of("error_bounds")
    bounds = rows[[f"bound, {name}" for name in "FGH"]].to_numpy()
    hold = int((bounds >= rows["test error"].to_numpy()[:, None]).sum())
    figures = f"{shared(hold, bounds.size)} bounds are above the test error; they are {bounds.min():.2f} to "
    return verdict(hold / bounds.size), figures + f"{bounds.max():.2f}, and so loose."


def _transduction() -> Seen:
    rows = table_of("rmm_transduction")
    rows = rows[rows["machine"] == "RMM, test samples too"]
    gains = rows["less than the RMM"].str.extract(r"(-?[\d.]+) ± ([\d.]+)").astype(float)
    clear = int((gains[0] > gains[1]).sum())
    return verdict(clear / len(rows)) if clear else "not shown", (
        f"With bounds at the test samples the RMM has {gains[0].min():.2f} to {gains[0].max():.2f} points "
        f"less "
        f"error than without, by more than a deviation in {shared(clear, len(rows))} settings."
    )


def _further() -> Seen:
    rows = table_of("rmm_transduction")
    return "done", (
        f"`fit(X, y, X_bounded=...)`; transduction on optical digits, {len(rows)} rows, "
        f"{'all' if rows['status'].eq('OPTIMAL').all() else 'not all'} converged. The paper prints no figure."
    )


def _line(name: str) -> Seen:
    """The state of a block of Table 1: how many printed cells are there, converged, at or below the paper."""
    cells = _cells()
    wanted = [(name, m, k) for (line, m) in PAPER if line == name for k in KERNELS]
    there = [key for key in wanted if key in cells]
    if not there:
        raise NotKeptError("None of its cells is computed with the present command.")
    converged = sum(is_converged(cells[key]) for key in there)
    at_most = sum(
        is_converged(cell) and cell["by lot"] <= printed
        for kernel, printed in zip(KERNELS, PAPER[name, "RMM"], strict=True)
        if (cell := cells.get((name, "RMM", kernel))) is not None
    )
    return "done" if converged == len(wanted) else "partly", (
        f"{shared(len(there), len(wanted))} cells, {converged} of them converged; with ties by lot, as in "
        f"the paper, the RMM is at or below the paper's at {shared(at_most, len(KERNELS))} kernels."
    )


def _figure_2() -> Seen:
    ends = table_of("growth")["status"].dropna().unique()
    return "done" if [*ends] == [
        "all converged"
    ] else "partly", f"1,000 to 10,000 samples; {', '.join(ends)}."


CHAPTER = Chapter(
    "The Relative Margin Machine",
    "Shivaswamy and Jebara, Relative Margin Machines (2008)",
    (
        Claim(
            "section 2, Figure 1",
            "Scaling an axis changes what the SVM finds; the maximum relative margin stays.",
            "rmm_figure1",
            stretched,
        ),
        Claim(
            "section 3",
            "The SVM's solution is sensitive to translations.",
            "test_crosschecks.py::test_every_crosscheck_holds",
            remark="With a free intercept, translation changes b alone.",
            tested="no",
        ),
        Claim(
            "section 3, (4)",
            "The Sigma-SVM tends to an affine invariant solution as D tends to one.",
            "test_crosschecks.py::test_every_crosscheck_holds",
        ),
        Claim(
            "section 3",
            "For 0 < D < 1, (4) is an SVM with the printed kernel.",
            "test_crosschecks.py::test_every_crosscheck_holds",
            remark="So it is where 1 / (1 - D) stands before both terms, once.",
            tested="partly",
        ),
        Claim(
            "section 3.1",
            "With B above the SVM's largest output the RMM is the SVM, and below it is not.",
            "test_margin_programs.py::test_rmm_is_svm_above_the_threshold_only",
        ),
        Claim(
            "section 3.1, (6)",
            "The dual whitens the data by I + Σ_λ, jointly with the margin.",
            "test_crosschecks.py::test_every_crosscheck_holds",
            remark="As printed, (6) lacks a term; with it, it is the dual.",
            tested="partly",
        ),
        Claim(
            "section 3.1",
            "The quadratic bound is two linear ones: (5) and (7) are one machine.",
            "test_crosschecks.py::test_every_crosscheck_holds",
        ),
        Claim(
            "section 4, Table 1",
            "The Sigma-SVM usually performs much better than the SVM.",
            "rmm_table",
            lambda: _better("Sigma-SVM", "SVM", mostly),
        ),
        Claim(
            "section 4, Table 1",
            "The RMM performs even better than the Sigma-SVM in most cases.",
            "rmm_table",
            lambda: _better("RMM", "Sigma-SVM", mostly),
        ),
        Claim(
            "section 4, Table 1",
            "The RMM performs better than the SVM.",
            "rmm_table",
            lambda: _better("RMM", "SVM", verdict),
        ),
        Claim(
            "section 4, Table 1",
            "With kernels of higher degree the Sigma-SVM matches the RMM; with lower ones it does not.",
            "rmm_table",
            _matches,
        ),
        Claim(
            "section 4, Figure 2",
            "The run times of SVM and RMM behave alike as n grows.",
            "growth",
            _slopes,
        ),
        Claim(
            "section 4, Figure 2",
            "In many cases a warm start helps the RMM significantly.",
            "growth",
            _warm,
        ),
        Claim(
            "appendix",
            "With Theorem 1, the complexities of the classes F, G and H bound the error.",
            "error_bounds",
            _bounds,
        ),
        Claim(
            "section 5",
            "The bounds need no labels: RMMs can work in transduction.",
            "rmm_transduction",
            _transduction,
        ),
    ),
    (
        Item(
            "Programs (1) to (4): SVM, Sigma-SVM, duals",
            "test_every_program.py::test_primal_equals_dual_equals_known_optimum",
        ),
        Item(
            "Programs (5) to (8): QCQP, QP, duals",
            "test_every_program.py::test_primal_equals_dual_equals_known_optimum",
        ),
        Item("Sub-problem (9)", "test_margin_programs.py::test_cross_term_of_9_is_whole"),
        Item(
            "Slack on the bound (a remark, not investigated there)",
            "test_every_program.py::test_multipliers_are_variables_of_the_other_side",
        ),
        Item("Warm starts", "test_path.py::test_warm_path_needs_fewer_rows"),
        Item(
            "Majority votes, ties broken at random",
            "rmm_table",
            lambda: ("done", "Beside those with ties going to the smaller digit."),
        ),
        Item("Figure 1", "rmm_figure1", lambda: ("done", f"{len(table_of('rmm_figure1'))} scalings.")),
        *(
            Item(f"Table 1, {line}", "rmm_table", lambda line=line: _line(line))  # type: ignore[misc]
            for line in ("optdigits", "USPS", "MNIST, 1000", "MNIST, 2/3", "MNIST, full")
        ),
        Item("Figure 2", "growth", _figure_2),
        Item(
            "Complexities of the classes F, G and H, and Theorem 1",
            "test_margin_bounds.py::test_bound_holds_on_fresh_samples",
        ),
        Item(
            "The set U: bounds at further samples",
            "rmm_transduction",
            _further,
        ),
    ),
)
