"""The comparison with interpretable models: what is counted, kept, averaged and told apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from benchmarks.helpers import interpretable_page as page
from benchmarks.helpers.interpretable_cells import computed, kept_cells
from benchmarks.helpers.interpretable_ours import OURS
from benchmarks.helpers.interpretable_rivals import (
    LIMIT,
    RIVALS,
    KernelMachine,
    SparseLogistic,
    preparation,
)
from benchmarks.helpers.interpretable_size import final_model, numbers_of
from polyopt import ConvexPolytopeMachine


@pytest.fixture(scope="module")
def samples():
    return make_classification(150, 80, n_informative=6, random_state=0)


# -- what is counted -----------------------------------------------------------------------------------


def test_weights_that_are_not_zero_are_counted_with_the_intercept(samples):
    model = LogisticRegression(l1_ratio=1.0, C=0.05, solver="liblinear").fit(*samples)
    weights = [value for value in (*model.coef_[0], *model.intercept_) if value != 0.0]
    assert 0 < numbers_of(model) == len(weights) < 81


def test_a_tree_has_its_thresholds_and_its_leaves(samples):
    tree = DecisionTreeClassifier(max_leaf_nodes=7, random_state=0).fit(*samples)
    inner = int((tree.tree_.children_left >= 0).sum())
    assert numbers_of(tree) == inner + tree.get_n_leaves() == 13


def test_added_trees_have_all_their_nodes_and_where_they_start(samples):
    model = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, early_stopping=False).fit(*samples)
    assert numbers_of(model) == 1 + 3 * (3 + 4)


def test_a_kernel_machine_has_all_its_support_vectors(samples):
    model = SVC().fit(*samples)
    assert numbers_of(model) == len(model.support_) * 81 + 1


def test_polytopes_have_all_their_faces(samples):
    X, y = samples[0][:, :5], samples[1]
    one = ConvexPolytopeMachine(2, n_init=1, random_state=0).fit(X, y)
    both = ConvexPolytopeMachine(2, double_sided=True, n_init=1, random_state=0).fit(X, y)
    assert numbers_of(one) == np.count_nonzero(one.W_) + np.count_nonzero(one.b_) == 12
    assert numbers_of(both) == sum(numbers_of(side) for side in both.sides_) == 24


def test_the_model_is_found_within_what_is_around_it(samples):
    tree = DecisionTreeClassifier(random_state=0)
    search = GridSearchCV(tree, {"max_leaf_nodes": [3]}, cv=2)
    whole = make_pipeline(StandardScaler(), CalibratedClassifierCV(search, cv=2, ensemble=False))
    whole.fit(*samples)
    assert isinstance(final_model(whole), DecisionTreeClassifier)
    assert numbers_of(whole) == 5


def test_a_model_without_a_rule_is_named():
    with pytest.raises(TypeError, match="numbers of StandardScaler is not known"):
        numbers_of(StandardScaler())


# -- the rivals ----------------------------------------------------------------------------------------


def test_the_small_lasso_keeps_to_its_size_and_the_other_need_not(samples):
    small, large = SparseLogistic(limit=4).fit(*samples), SparseLogistic().fit(*samples)
    assert numbers_of(small) <= 4 < numbers_of(large)


def test_gaps_and_unseen_levels_are_prepared():
    frame = pd.DataFrame({"age": [1.0, np.nan, 3.0], "sex": pd.Categorical(["f", "m", None])})
    mixed = preparation("mixed").fit(frame)
    columns = mixed.transform(frame)
    np.testing.assert_allclose(columns.mean(axis=0)[:1], 0.0, atol=1e-12)
    assert columns[:, 1:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert columns[1, 0] == 0.0  # the median of 1 and 3
    other = pd.DataFrame({"age": [2.0], "sex": pd.Categorical(["other"])})
    assert mixed.transform(other)[0, 1:].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "own", [KernelMachine(), SparseLogistic(limit=4)], ids=lambda own: type(own).__name__
)
def test_a_machine_of_the_benchmarks_own_has_labels_and_probabilities(samples, own):
    X, y = samples
    odds = own.fit(X, y).predict_proba(X)
    assert odds.shape == (150, 2)
    assert np.mean(odds.argmax(axis=1) == own.predict(X)) > 0.9  # Platt's curve may cross a half elsewhere
    assert own.score(X, y) > 0.8


@pytest.mark.parametrize("name", [name for name in RIVALS if f"{LIMIT} numbers" in name])
def test_what_is_called_small_is_small(name, samples):
    assert 0 < numbers_of(RIVALS[name].make("numbers", 0).fit(*samples)) <= LIMIT


# -- cells ---------------------------------------------------------------------------------------------


def test_cells_that_are_kept_are_not_computed_again(tmp_path):
    made = []

    def make(kind, seed):
        made.append(seed)
        return LogisticRegression()

    def broken(kind, seed):
        return LogisticRegression(C=-1.0)

    file = tmp_path / "cells.csv"
    models = {"logistic": make, "broken": broken}
    first = list(computed(file, models, ["wbc"], range(1)))
    again = list(computed(file, models, ["wbc"], range(2)))
    assert made == [0, 1]
    assert [row["split"] for row in again] == [0, 0, 1, 1]
    assert len(kept_cells(file)) == 4
    assert "C" in first[1]["failed"]
    assert "auroc" not in first[1]
    assert 0.9 < first[0]["auroc"] <= 1.0
    assert (first[0]["numbers"], first[0]["n"], first[0]["m"]) == (10, 683, 9)


# -- what is made of them ------------------------------------------------------------------------------


def cells(means, sets=("a", "b"), spread=0.0):
    """Ten splits of each set; the AUROC of every model is its mean, and on odd splits more by a spread."""
    return pd.DataFrame(
        {
            "set": name, "n": 100, "m": 5, "kind": "numbers", "split": split, "model": model,
            "auroc": mean + spread * (split % 2) * (model == "EBM"), "error": 1 - mean,
            "logloss": 0.5, "numbers": 10 * (1 + (name == "b") * 9),
            "train_s": 2.0, "failed": "",
        }
        for name in sets
        for split in range(10)
        for model, mean in means.items()
    )  # fmt: skip


def test_a_difference_has_the_interval_of_its_splits():
    rows = cells({OURS[0]: 0.90, "EBM": 0.92}, spread=0.01)
    mean, low, high = page.compared(rows, OURS[0], "EBM")
    apart = -0.02 - 0.01 * (np.arange(10) % 2)
    half = t.ppf(0.975, 9) * apart.std(ddof=1) * np.sqrt(0.1 + 3 / 7)
    np.testing.assert_allclose((mean, low, high), (apart.mean(), apart.mean() - half, apart.mean() + half))


def test_sets_of_more_splits_count_no_more_than_others():
    rows = cells({OURS[0]: 0.90, "EBM": 0.92})
    apart = (rows["set"] == "a") & (rows["model"] == "EBM")
    rows.loc[apart, ["auroc", "train_s"]] = 0.96, 8.0
    own = rows["model"] == OURS[0]
    rows.loc[own, "train_s"] = 1.0
    rows.loc[(rows["set"] == "b") & (rows["model"] == "EBM"), "train_s"] = 2.0
    even, some = rows, rows[(rows["set"] == "b") | (rows["split"] == 0)]
    for table in (page.by_model(even), page.by_model(some)):
        ours = table.set_index("model").loc[OURS[0]]
        assert ours["times faster to fit than EBM"] == pytest.approx(4.0)
        assert ours["AUROC less EBM's"].startswith("−0.0400")
    mean, low, high = page.compared(some, OURS[0], "EBM")
    assert mean == pytest.approx(-0.04)
    assert np.isnan([low, high]).all()


def test_where_ours_is_lower_is_said():
    rows = cells({OURS[0]: 0.90, "EBM": 0.92, "greedy tree": 0.905}, spread=0.001)
    table = page.by_model(rows).set_index("model")
    assert table.index[0] == OURS[0]
    assert table.loc["EBM", f"{OURS[0]}: lower on"] == 2
    assert table.loc["EBM", f"{OURS[0]}: higher on"] == 0
    assert table.loc["EBM", "numbers"] == pytest.approx(np.sqrt(10 * 100))
    assert table.loc[OURS[0], "AUROC less EBM's"].startswith("−0.0205 (−0.0")
    lost = page.by_set(rows).set_index("set")[f"{OURS[0]}, loses to"]
    assert lost.to_dict() == {"a": "EBM", "b": "EBM"}  # to the tree there is no spread, and no interval


def test_means_are_over_the_cells_that_every_model_has():
    rows = cells({"EBM": 0.92, "greedy tree": 0.8})
    rows.loc[(rows["set"] == "a") & (rows["model"] == "EBM"), "auroc"] = 0.5
    some = rows[~((rows["set"] == "a") & (rows["model"] == "greedy tree"))]
    table = page.by_model(some).set_index("model")
    assert table.loc["EBM", "AUROC"] == pytest.approx(0.92)
    assert table.loc["EBM", "note"] == "10 fits on 1 sets"


def test_a_fit_that_failed_is_told_and_does_not_take_the_others_along():
    rows = cells({"EBM": 0.92, "greedy tree": 0.8})
    which = (rows["set"] == "a") & (rows["model"] == "greedy tree")
    rows.loc[which, ["auroc", "error", "logloss", "numbers", "train_s"]] = np.nan
    rows.loc[which, "failed"] = "ValueError: no"
    table = page.by_model(rows).set_index("model")
    assert table.loc["EBM", "note"] == "20 fits on 2 sets"
    assert table.loc["greedy tree", "note"] == "10 fits on 1 sets; failed on a: ValueError: no"
