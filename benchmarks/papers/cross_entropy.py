"""The cross entropy method for classification: claims and items of the slides."""

from __future__ import annotations

import re

import pandas as pd

from benchmarks.papers.chapter import (
    Chapter,
    Claim,
    Item,
    NotKeptError,
    Seen,
    geometric_mean,
    shared,
    table_of,
    verdict,
)

__all__ = ["CHAPTER"]

_KERNELS = ("linear", "polynomial", "RBF")
_MAX_DEVIATIONS = 2.0  # deviations of the difference within which two errors are called the same


def _numbers(column: pd.Series) -> pd.DataFrame:
    """Means and deviations of cells such as ``14.7 ± 2.0``."""
    found = column.astype(str).str.extract(r"([\d.]+) ± ([\d.]+)").astype(float)
    return found.rename(columns={0: "mean", 1: "deviation"})


def _cells(rule: str = "sparsity") -> pd.DataFrame:
    rows = table_of("l0_tables")
    rows = rows[rows["rule"] == rule]
    found = rows[["kernel", "data", "method"]].copy()
    for name in ("error", "vectors"):
        numbers = _numbers(rows[f"{name}, %"])
        found[name], found[f"{name} ±"] = numbers["mean"], numbers["deviation"]
    return found.set_index(["method", "kernel", "data"])


def _dense() -> Seen:
    svm = _cells("error").loc["SVM"]["vectors"].groupby("kernel").mean()
    figures = ", ".join(f"{svm[kernel]:.0f} % ({kernel})" for kernel in _KERNELS)
    return verdict(float(svm.min() > 20 and svm[["polynomial", "RBF"]].min() >= svm["linear"])), (
        f"Of the samples so many are support vectors, on average: {figures}."
    )


def _comparable() -> Seen:
    cells = _cells("error")
    ce, svm = cells.loc["CE"], cells.loc["SVM"]
    spread = (ce["error ±"] ** 2 + svm["error ±"] ** 2) ** 0.5
    apart = ((ce["error"] - svm["error"]).abs() > _MAX_DEVIATIONS * spread).sum()
    return verdict(1.0 - apart / len(ce)), (
        f"Mean error {ce['error'].mean():.1f} % (CE) and {svm['error'].mean():.1f} % (SVM); they differ by "
        f"more than two deviations in {shared(int(apart), len(ce))} cells."
    )


def _than_svm() -> Seen:
    cells = _cells()
    fewer = cells.loc["CE"]["vectors"] < cells.loc["SVM"]["vectors"]
    means = [cells.loc[method]["vectors"].mean() for method in ("CE", "SVM")]
    return verdict(fewer.mean()), (
        f"In {shared(int(fewer.sum()), len(fewer))} cells; {means[0]:.1f} % of the samples against "
        f"{means[1]:.1f} % on average."
    )


def _fewer(kernel: str) -> Seen:
    rows = table_of("l0_claims")
    rows = rows[(rows["kernel"] == kernel) & (rows["rule"] == "sparsity")]
    if rows.empty:
        raise NotKeptError(f"l0_claims has no line for {kernel}.")
    row = rows.iloc[0]
    claimed, ours = float(row["slides: fewer, %"]), float(row["fewer, %"])
    more = f"{ours:.0f} % fewer" if ours >= 0 else f"{-ours:.0f} % more"
    return ("yes" if ours >= claimed else "partly" if ours > 0 else "no"), (
        f"{more} on average over five sets (claimed: {claimed:.0f} % fewer), fewer on "
        f"{int(row['sets with fewer'])} of 5; {row['than theirs, %']:.0f} % fewer than the slides' own "
        f"one-norm "
        "SVM has."
    )


def _synthetic() -> Seen:
    rows = table_of("l0_synthetic").set_index("method")
    counts = rows["support vectors"]
    figures = ", ".join(f"{method}: {counts[method]}" for method in rows.index)
    return verdict(float(counts["CE"] == 1 and counts["one-norm SVM"] == 2)), f"Support vectors, {figures}."


def parallel() -> Seen:
    rows = table_of("l0_workers")
    times = rows["times faster by the clock"]
    loaded = " (the machine was at work on other things as well)" if rows["load"].max() > 3.0 else ""
    return verdict(float(geometric_mean(times) > 1.2)), (
        f"Two workers are {geometric_mean(times):.2f} times as fast as one{loaded}. The programs of "
        "an iteration are independent, and short: handing them out costs as much."
    )


def _sub_optimal() -> Seen:
    rows = table_of("l0_optimum")
    proven = rows["open gap, %"] < 0.01
    return "yes", (
        f"One run is {rows['excess of one run, %'].mean():.2f} % above the best known value on average, "
        f"{rows['excess of one run, %'].max():.1f} % at worst; the best is proven to be the optimum in "
        f"{shared(int(proven.sum()), len(rows))} cases."
    )


def _all_cells() -> Seen:
    rows = table_of("l0_tables")
    rows = rows[rows["rule"] == "sparsity"]
    met = rows["met"].astype(str).eq("yes")
    ce = rows["method"] == "CE"
    ended = rows["status"].astype(str).str.startswith("converged")
    claims = table_of("l0_claims")
    splits = [int(n) for text in claims["splits"].dropna() for n in re.findall(r"^(\d+) of", str(text))]
    state = "done" if len(rows) == 45 and ended.all() and min(splits) >= 5 else "partly"
    return state, (
        f"{len(rows)} cells over {min(splits)} of 5 splits, {int(ended.sum())} converged. "
        "CE is at or below the slides' share at an error within a deviation in "
        f"{shared(int(met[ce].sum()), int(ce.sum()))}."
    )


CHAPTER = Chapter(
    "The cross-entropy method for L0 support vectors",
    "Mannor, Peleg and Rubinstein, The cross entropy method for classification (slides)",
    (
        Claim(
            "conclusions",
            "Standard SVMs are not usually sparse, especially with non-linear kernels.",
            "l0_tables",
            _dense,
        ),
        Claim(
            "conclusions",
            "CE is as accurate as the SVM; statistically no method is better.",
            "l0_tables",
            _comparable,
        ),
        Claim("conclusions", "CE has much fewer support vectors than the SVM.", "l0_tables", _than_svm),
        Claim(
            "conclusions",
            "With linear kernels, CE has 29 % fewer support vectors than the one-norm SVM.",
            "l0_claims",
            lambda: _fewer("linear"),
        ),
        Claim(
            "conclusions",
            "With polynomial kernels, 70 % fewer.",
            "l0_claims",
            lambda: _fewer("polynomial"),
            "Our one-norm SVM is much sparser than the slides' to begin with: at no more loss, half is "
            "the most "
            "that any machine could save (l0_reason).",
        ),
        Claim(
            "conclusions",
            "With RBF kernels, 40 % fewer.",
            "l0_claims",
            lambda: _fewer("RBF"),
            "At the wide kernels that validation chooses for the one-norm SVM the optimum of CE's "
            "own program has "
            "more vectors, by proof (l0_reason); at equal kernel and loss it has fewer.",
        ),
        Claim("synthetic data", "One support vector against two.", "l0_synthetic", _synthetic),
        Claim(
            "support vectors",
            "The kernel need not be a Mercer kernel.",
            "test_l0_programs.py::test_primal_equals_dual_equals_scipy",
        ),
        Claim("the CE method", "It settles for sub-optimal solutions.", "l0_optimum", _sub_optimal),
        Claim("wrap-up", "It can be parallelised.", "l0_workers", parallel),
        Claim(
            "the CE method",
            "The update takes the 1 - ρ percentile of scores that are minimised.",
            "test_cross_entropy.py::test_the_printed_quantile_does_not_concentrate",
            remark="A misprint: the ρ percentile concentrates, the printed one does not.",
            tested="no",
        ),
    ),
    (
        Item(
            "The program with ‖α‖₀, and the linear program of a pattern",
            "test_l0_programs.py::test_exact_program_is_best_of_all_patterns",
        ),
        Item(
            "The one-norm SVM",
            "test_l0_programs.py::test_relaxation_at_price_one_is_one_norm",
        ),
        Item(
            "The CE method: sampling, update, smoothing",
            "test_cross_entropy.py::test_small_problems_are_solved_as_by_enumeration",
        ),
        Item(
            "Tweak: small α are truncated",
            "test_l0_programs.py::test_score_prunes_rounding_and_pays_for_it",
        ),
        Item(
            "Tweak: the SVM is solved first, and others than its support vectors are left out",
            "test_l0_estimators.py::test_screen_bound_is_of_candidates",
        ),
        Item(
            "Tweak: scores are kept",
            "test_cross_entropy.py::test_no_pattern_is_scored_twice",
        ),
        Item(
            "Tweak: the end, where nothing improves",
            "test_cross_entropy.py::test_patience_waits_for_best_and_threshold",
        ),
        Item(
            "Feature selection and regression, of which the wrap-up speaks",
            "test_cross_entropy.py::test_features_of_a_regression_are_selected",
        ),
        Item(
            "The picture of synthetic data",
            "l0_synthetic",
            lambda: ("done", "CE, the one-norm SVM and the SVM."),
        ),
        Item("The three tables, 45 cells", "l0_tables", _all_cells),
    ),
)
