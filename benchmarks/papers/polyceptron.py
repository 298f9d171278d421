"""Polyceptron: claims and items."""

from __future__ import annotations

import pandas as pd

from benchmarks.papers.chapter import Chapter, Claim, Item, Seen, geometric_mean, shared, table_of, verdict

__all__ = ["CHAPTER"]

_BATCH, _ONLINE = "Polyceptron, batch", "Polyceptron, online"
_TIME = "CPU seconds of a fit"
_PRINTED = ("Polyceptron, batch, as printed", "Polyceptron, online, as printed", "SPLA1", "OC1", "PC-SLP")


def _cells() -> pd.DataFrame:
    """Accuracies and seconds, by data set and method."""
    rows = table_of("polyhedral_table").copy()
    rows["accuracy"] = rows["accuracy, %"].str.extract(r"([\d.]+) ±").astype(float)
    return rows.set_index(["data", "method"]).unstack("method")


def _against(method: str, other: str, least: float = 0.0) -> Seen:
    """Sets on which a method is more accurate than another by at least so much, and how much faster it is."""
    cells = _cells()
    more = cells["accuracy"][method] - cells["accuracy"][other]
    times = cells[_TIME][other] / cells[_TIME][method]
    wins = int(((more >= least) & (times > 1.0)).sum())
    return verdict(wins / len(more)), (
        f"Accuracy {more.mean():+.1f} points on average ({more.min():+.1f} to {more.max():+.1f}), "
        f"{geometric_mean(times):.2g} times as fast; both hold on {shared(wins, len(more))} sets."
    )


def _comparable() -> Seen:
    cells = _cells()
    more = cells["accuracy"][_BATCH] - cells["accuracy"]["SPLA1"]
    times = cells[_TIME]["SPLA1"] / cells[_TIME][_BATCH]
    close, fast = int((more > -1.0).sum()), int((times >= 1.5).sum())
    return verdict((close + fast) / (2 * len(more))), (
        f"Within a point of SPLA1's accuracy, or above, on {shared(close, len(more))} sets; 1.5 times "
        f"as fast on "
        f"{shared(fast, len(times))} ({times.min():.2f} to {times.max():.2f} times), each with its "
        f"tuned settings."
    )


def falls() -> Seen:
    rows = table_of("polyceptron_steps")
    rises = rows[rows["solver"] == "batch"]["E_P rises, % of steps"]
    return verdict(float((rises == 0.0).all())), (
        f"With the paper's step of 0.1, it rises in {rises.min():.0f} to {rises.max():.0f} % of the "
        f"iterations."
    )


def _converges() -> Seen:
    rows = table_of("polyceptron_steps")
    rows = rows[rows["solver"] == "online"]
    ends, starts = int(rows["without a mistake at the end"].sum()), int(rows["starts"].sum())
    passes = ", ".join(f"{value:.0f}" for value in rows["units to there, median"])
    return verdict(ends / starts), (
        f"{shared(ends, starts)} starts reach no mistake, after {passes} passes (medians, set 1 and "
        f"set 2); "
        f"the worst ends at {rows['fewest mistakes of the worst run'].max():.0f}."
    )


def _trees() -> Seen:
    cells = _cells()
    more = cells["accuracy"][_BATCH] - cells["accuracy"]["OC1"]
    faces = cells["faces, leaves or support vectors"]
    sets = ["data set 1", "data set 2"]
    figures = ", ".join(f"{more[name]:+.1f} points on {name}" for name in sets)
    fewer = int((faces[_BATCH] < faces["OC1"]).sum())
    return verdict(float((more[sets] > 3.0).mean())), (
        f"{figures}; fewer hyperplanes than OC1 has leaves on {shared(fewer, len(more))} sets."
    )


def _table_2() -> Seen:
    rows = table_of("polyhedral_table").dropna(subset=["paper, %"])
    rows = rows[rows["method"].isin(_PRINTED)]
    away = rows["deviations above the paper"].astype(float)
    near = int((away.abs() <= 2.0).sum())
    below = int((away < -2.0).sum())
    return "done", (
        f"{len(rows)} printed rows beside ours; {near} within two deviations, {below} below the paper, "
        f"{len(rows) - near - below} above it. The likely reasons stand with the table."
    )


CHAPTER = Chapter(
    "The Polyceptron",
    "Manwani and Sastry, Polyceptron: A Polyhedral Learning Algorithm",
    (
        Claim(
            "section 4.3",
            "The Polyceptron criterion falls monotonically with every batch iteration.",
            "polyceptron_steps",
            falls,
            "A step moves samples to other faces, where their error is another.",
        ),
        Claim(
            "section 4.3, Figure 3",
            "On polyhedrally separable data the online Polyceptron converges in finitely many iterations.",
            "polyceptron_steps",
            _converges,
        ),
        Claim(
            "section 4.3",
            "Batch is always better than online, in time and accuracy.",
            "polyhedral_table",
            lambda: _against(_BATCH, _ONLINE),
            "Our online runs are more accurate than the paper's.",
        ),
        Claim(
            "section 4.3",
            "Batch is as accurate as SPLA1, and at least 1.5 times as fast.",
            "polyhedral_table",
            _comparable,
        ),
        Claim(
            "section 4.3",
            "A generic tree (OC1) is not good at polyhedral sets: much less accurate on set 1 and 2, "
            "more hyperplanes.",
            "polyhedral_table",
            _trees,
        ),
        Claim(
            "section 4.3",
            "Batch always outperforms PC-SLP, in time and accuracy.",
            "polyhedral_table",
            lambda: _against(_BATCH, "PC-SLP"),
            "Our PC-SLP goes on until no linear program lowers the error.",
        ),
        Claim(
            "section 3.2, (5)",
            "An online step lowers the error of its sample.",
            "test_polyceptron.py::test_pass_is_algorithm_2",
        ),
    ),
    (
        Item(
            "Criterion (3), and its gradient at fixed sets",
            "test_spla1.py::test_criterion_gradient_is_of_the_misclassified",
        ),
        Item("Algorithm 1, batch", "test_polyceptron.py::test_iteration_is_gradient_step"),
        Item("Algorithm 2, online", "test_polyceptron.py::test_pass_is_algorithm_2"),
        Item(
            "The criterion minimised exactly at fixed sets (not in the paper)",
            "test_polyhedral_programs.py::test_primal_equals_dual_within_any_box",
        ),
        Item(
            "Synthetic data sets 1 and 2",
            "test_polyhedral_programs.py::test_first_data_set_of_polyceptron_is_separated",
        ),
        Item(
            "Figure 3, and E_P against iterations",
            "polyceptron_steps",
            lambda: ("done", "Online and batch, 20 starts each, drawn."),
        ),
        Item("Table 2: batch, online, SPLA1, OC1, PC-SLP", "polyhedral_table", _table_2),
    ),
)
