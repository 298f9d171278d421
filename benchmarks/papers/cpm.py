"""The Convex Polytope Machine: claims and items."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.papers.chapter import Chapter, Claim, Item, Seen, shared, table_of, verdict

__all__ = ["CHAPTER"]

_MNIST, _A9A, _TEN = "MNIST 2 vs rest", "A9A", "ten classes"


def _margins() -> Seen:
    rows = table_of("cpm_figure1").set_index("polytope")
    one, two = rows.loc["1a, one face"], rows.loc["1a, two faces"]
    least = min(two["margin of face 1"], two["margin of face 2"])
    return verdict(float(least > one["margin of face 1"])), (
        f"One face has a margin of {one['margin of face 1']:.2f}, two faces have "
        f"{two['margin of face 1']:.2f} and "
        f"{two['margin of face 2']:.2f}."
    )


def _wiggle() -> Seen:
    rows = table_of("cpm_figure1").set_index("polytope")
    turned = rows.dropna(subset=["turned by, degrees"])
    best = rows.loc["1b, faces 1' and 2"]
    same = float(np.ptp([best["worst-case margin"], *turned["worst-case margin"]]))
    degrees = float(np.ptp(turned["turned by, degrees"]))
    return verdict(float(same < 1e-6 < 1.0 < degrees)), (
        f"The other face turns through {degrees:.0f} degrees while the worst-case margin stays "
        f"{best['worst-case margin']:.3f}; the total margin falls from {best['total margin']:.2f} to "
        f"{turned['total margin'].min():.2f}."
    )


def _entropy() -> Seen:
    rows = _cells("CPM", "CPM, h = 0")
    gains = rows["CPM, h = 0"] - rows["CPM"]
    words = "; ".join(f"{data}: {errors['CPM, h = 0']:.2f} % without, {errors['CPM']:.2f} % with"
                      for data, errors in rows.iterrows())  # fmt: skip
    return verdict(float((gains > 0.0).mean())), f"{words}."


def _cells(*machines: str) -> pd.DataFrame:
    """Test errors of Table 1 where each of the machines has one: a line per set, a column per machine."""
    rows = table_of("cpm_table")
    wide = rows.pivot_table(index="data", columns="machine", values="test error, %", sort=False)
    return wide.dropna(subset=list(machines))


def adaptive() -> Seen:
    rows = _cells("CPM", "AMM")
    words = "; ".join(f"{data}: AMM {errors['AMM']:.2f} %, CPM {errors['CPM']:.2f} %"
                      for data, errors in rows.iterrows())  # fmt: skip
    return verdict(float((rows["AMM"] > rows["CPM"]).mean())), f"{words}."


def _by_the_protocol() -> pd.DataFrame:
    """Mean errors of Figure 2, and the standard error of each."""
    rows = table_of("cpm_figure2")
    return rows.assign(se=rows["deviation"] / rows["runs"] ** 0.5)


def more_faces() -> Seen:
    rows = _by_the_protocol()
    last = rows[rows["steps"] == rows["steps"].max()].set_index("faces")
    errors = last["mean error, %"]
    noise = (last["se"] ** 2 + last["se"].shift() ** 2) ** 0.5
    falls = (errors.diff() <= 2.0 * noise)[1:].mean() if errors.iloc[-1] < errors.iloc[0] else 0.0
    words = ", ".join(f"{error:.2f} (K = {K})" for K, error in errors.items())
    return verdict(float(falls)), (
        f"At the most steps, mean errors in %: {words}; a rise counts where it is above two standard errors."
    )


def more_steps() -> Seen:
    rows = _by_the_protocol()
    rows = rows[rows["faces"] > 1].sort_values("steps")
    ends = rows.groupby("faces")["mean error, %"].agg(["first", "last"])
    rises = rows["change, in standard errors"] > 2.0
    falls = ends["last"] < ends["first"]
    exceptions = "".join(
        f" K = {K} goes from {end['first']:.2f} to {end['last']:.2f} %." for K, end in ends[~falls].iterrows()
    )
    return verdict(float((falls & ~rises.groupby(rows["faces"]).any()).mean())), (
        f"The error at the most steps is below that at the fewest for {shared(int(falls.sum()), len(ends))} "
        f"K > 1; {int(rises.sum())} of {len(rows) - len(ends)} doublings of T raise it by more than two "
        f"standard errors.{exceptions}"
    )


def _kernel_svm() -> Seen:
    rows = table_of("cpm_rivals")
    words, holds = [], []
    for name, found in rows.groupby("data", sort=False):
        found = found.dropna(subset=["test error, %"])
        svm = found[found["machine"].str.startswith("RBF")].sort_values("seconds to train").iloc[0]
        cpm = found[found["machine"].str.startswith("CPM")].sort_values("test error, %").iloc[0]
        words.append(
            f"{str(name).partition(' (')[0]}: {cpm['test error, %']:.2f} % in "
            f"{cpm['seconds to train']:.0f} s "
            f"against {svm['test error, %']:.2f} % in {svm['seconds to train']:.0f} s"
        )
        holds.append(
            cpm["test error, %"] <= svm["test error, %"] + 0.05
            and cpm["seconds to train"] < svm["seconds to train"]
        )
    return verdict(float(np.mean(holds))), f"CPM against the fastest RBF SVM, {'; '.join(words)}."


def _row(name: str) -> Seen:
    """A row of Table 1 or of section 5.3: our best by validation beside the printed one."""
    rows = table_of("cpm_errors")
    rows = rows[rows["data"].str.startswith(name)]
    best = rows.loc[rows["held-out error, %"].idxmin()]
    ours, paper = float(best["test error, %"]), float(best["paper, %"])
    state = "done" if ours <= paper else "done, above the paper"
    return state, (
        f"{ours:.2f} ± {best['deviation']:.2f} % against the paper's {paper:.2f} %, as the held-out "
        f"part chose."
    )


def _table_1() -> Seen:
    """How many of the printed cells have one of ours on the paper's own test part, and how they compare."""
    rows = table_of("cpm_table").dropna(subset=["paper, %"])
    has = rows.dropna(subset=["test error, %"])
    other = has["status"].str.contains("not the paper's test part|of our own")
    same = has[~other]
    reached = int((same["test error, %"] <= same["paper, %"] + 0.005).sum())
    missing = rows[rows["test error, %"].isna()]
    files = sorted({*missing["data"][missing["status"].str.contains("no files")]})
    state = "done" if len(has) == len(rows) else "partly"
    return state, (
        f"{len(has)} of {len(rows)} printed cells computed: {len(same)} on the paper's own samples, of which "
        f"{reached} at or below the printed error, and {int(other.sum())} on others (IJCNN1's other test "
        f"part, digits of our own making). No files here: {', '.join(files)}."
    )


def _figure_2() -> Seen:
    rows = _by_the_protocol()
    return "done", (
        f"{rows['faces'].nunique()} K, {rows['steps'].nunique()} T from {rows['steps'].min():,} to "
        f"{rows['steps'].max():,}, {int(rows['runs'].min())} runs."
    )


CHAPTER = Chapter(
    "The Convex Polytope Machine",
    "Kantchelian, Tschantz, Huang, Bartlett, Joseph and Tygar, Large-Margin Convex Polytope Machine (2014)",
    (
        Claim(
            "section 1, Figure 1a",
            "Two sub-classifiers have larger margins than one.",
            "cpm_figure1",
            _margins,
        ),
        Claim(
            "section 3.2, Figure 1b",
            "The worst-case margin lets other faces wiggle; the total margin does not.",
            "cpm_figure1",
            _wiggle,
        ),
        Claim(
            "section 3.3",
            "At fixed assignments (6) is K independent SVMs.",
            "test_crosschecks.py::test_every_crosscheck_holds",
            remark="So it is with a slack for each face and negative; with one slack for all faces, "
            "as (6) is printed, it is not.",
            tested="partly",
        ),
        Claim(
            "section 3.4",
            "Theorem 1 bounds the error by the sum of the faces' norms; the bound is loose.",
            "test_rademacher.py::test_bound_holds_on_fresh_samples",
        ),
        Claim(
            "section 5.2",
            "The entropy heuristic leads to better solutions on all tasks (21 % on MNIST-2).",
            "cpm_table",
            _entropy,
        ),
        Claim("section 5.1", "AMM has larger errors.", "cpm_table", adaptive),
        Claim("section 5.2", "For any K > 1 the error falls with T.", "cpm_figure2", more_steps),
        Claim(
            "section 5.2",
            "At large T the error falls with K: large K does not overfit.",
            "cpm_figure2",
            more_faces,
        ),
        Claim(
            "section 5.2",
            "The CPM is as accurate as the RBF SVM, and faster to train on large data.",
            "cpm_rivals",
            _kernel_svm,
        ),
    ),
    (
        Item(
            "Programs (1) to (5): hard margins, worst case and total",
            "test_cpm_hard.py::test_one_sample_a_side_by_hand",
        ),
        Item(
            "Program (6), its dual and certificate",
            "test_every_program.py::test_primal_equals_dual_equals_known_optimum",
        ),
        Item("The worst-case margin with slack", "test_cpm.py::test_primal_dual_shares_and_recovery"),
        Item("Both margins of a fitted machine", "test_cpm_hard.py::test_face_margins_of_section_3_2"),
        Item("Algorithm 1, SGD", "test_cpm_sgd.py::test_the_solver_is_algorithm_1"),
        Item(
            "Algorithm 2, the assignment with its entropy", "test_cpm_sgd.py::test_the_kernel_is_algorithm_2"
        ),
        Item("Theorem 1", "test_rademacher.py::test_complexity_is_above_what_ascent_finds"),
        Item("Figure 1", "cpm_figure1", lambda: ("done", f"{len(table_of('cpm_figure1'))} polytopes.")),
        Item("Figure 2", "cpm_figure2", _figure_2),
        Item("Table 1, all rows and columns", "cpm_table", _table_1),
        Item("Table 1, MNIST-2, tuned over more", "cpm_errors", lambda: _row(_MNIST)),
        Item("Table 1, A9A, tuned over more", "cpm_errors", lambda: _row(_A9A)),
        Item("Section 5.3, MNIST with ten classes", "cpm_errors", lambda: _row(_TEN)),
        Item("Ties of votes at random", "cpm_errors", lambda: ("done", "Beside ties by scores.")),
    ),
)
