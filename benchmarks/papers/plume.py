"""PLUME: claims and items."""

from __future__ import annotations

from benchmarks.papers.chapter import Chapter, Claim, Item, Seen, shared, table_of, verdict

__all__ = ["CHAPTER"]

_WAYS = ("gradient", "Newton", "BFGS")


def _state_of_the_art() -> Seen:
    rows = table_of("polyhedral_table").copy()
    rows["accuracy"] = rows["accuracy, %"].str.extract(r"([\d.]+) ±").astype(float)
    cells = rows.pivot(index="data", columns="method", values="accuracy")
    others = ["SPLA1", "Polyceptron, batch", "PC-SLP", "CPM", "OC1"]
    behind = cells[others].max(axis=1) - cells["PLUME"]
    close = int((behind <= 1.0).sum())
    paired = rows[rows["method"] == "PLUME"].set_index("data")["PLUME above SPLA1"].dropna()
    figures = "; ".join(f"{name} {value}" for name, value in paired.items())
    return verdict(close / len(cells)), (
        f"Within a point of the best of {', '.join(others)} on {shared(close, len(cells))} sets. Points "
        f"above "
        f"SPLA1, on the same splits and ridges: {figures} repetitions."
    )


def _ways() -> Seen:
    rows = table_of("plume_steps")
    rows = rows[(rows["end"] == "Algorithm 1") & rows["M-step"].isin(_WAYS)]
    seconds = rows.groupby("M-step")["CPU seconds of a start"].median()
    least = rows.loc[rows.groupby("data")["median L"].idxmin(), "M-step"].value_counts()
    settled = int(rows["settled"].sum()), int(rows["starts"].sum())
    words = ", ".join(f"{way} {seconds[way]:.2f} s, least L on {least.get(way, 0)} sets" for way in _WAYS)
    return (
        "done",
        f"{words}; {shared(*settled)} runs settled at their own end, each over "
        f"{rows['data'].nunique()} sets.",
    )


def _polish() -> Seen:
    rows = table_of("plume_steps")
    stationary = rows.groupby("end")[["stationary", "starts"]].sum()
    words = "; ".join(
        f"{end}: {shared(int(line['stationary']), int(line['starts']))} runs end at a stationary point"
        for end, line in stationary.iterrows()
    )
    return "done", f"{words}."


CHAPTER = Chapter(
    "PLUME",
    "Shah, Sastry and Manwani, PLUME: Polyhedral Learning Using Mixture of Experts (2019). The text "
    "at hand "
    "lacks its formulas and ends before section 6, the experiments: their tables cannot be shown "
    "beside ours.",
    (
        Claim(
            "section 3",
            "SPLA1's model is the limit of this one.",
            "test_plume.py::test_gate_leads_from_mean_to_spla1",
        ),
        Claim(
            "section 4",
            "The expected complete-data likelihood of the M-step is concave.",
            "test_plume.py::test_m_step_is_convex_likelihood_is_not",
        ),
        Claim(
            "section 4",
            "The maximum of the M-step is unique: gradient, Newton and BFGS lead there.",
            "test_plume.py::test_all_methods_solve_the_m_step",
            remark="Unique with a ridge; without one there may be none.",
        ),
        Claim(
            "section 3",
            "As the posterior is smooth, EM converges.",
            "test_plume.py::test_no_step_raises_the_loss",
            remark="No step raises L; where steps settle need not be a stationary point (plume_steps).",
        ),
        Claim(
            "section 5, theorem 5",
            "The error is bounded by the data through the Rademacher complexity.",
            "test_rademacher.py::test_plume_bound_holds_in_worst_case",
        ),
        Claim(
            "abstract",
            "PLUME performs comparably to the other state-of-the-art approaches.",
            "polyhedral_table",
            _state_of_the_art,
        ),
    ),
    (
        Item("The model (3) and (4)", "test_plume.py::test_probabilities_are_those_of_the_definition"),
        Item(
            "The M-step's gradient and Hessian",
            "test_plume.py::test_gradient_and_hessian_are_finite_differences",
        ),
        Item(
            "Algorithm 1 to its own end, by gradient, Newton and BFGS: L against steps and seconds",
            "plume_steps",
            _ways,
        ),
        Item("The same with our polish (not in the paper)", "plume_steps", _polish),
        Item(
            "Backtracking line search",
            "test_plume.py::test_step_is_halved_until_enough",
        ),
        Item("The bound of theorem 5", "test_rademacher.py::test_plume_bound_by_hand"),
        Item(
            "The tables of section 6",
            "polyhedral_table",
            lambda: (
                "not at hand",
                "The text at hand ends before them; our own comparison is in the chapter on the Polyceptron.",
            ),
        ),
    ),
)
