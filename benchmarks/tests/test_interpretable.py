"""The comparison with interpretable models: what is counted, kept, averaged and told apart."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_1samp
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
from benchmarks.helpers.interpretable_ours import OURS
from benchmarks.helpers.interpretable_rivals import (
    LIMIT,
    RIVALS,
    KernelMachine,
    SparseLogistic,
    preparation,
)
from benchmarks.helpers.interpretable_size import final_model, numbers_of
from benchmarks.helpers.intervals import interval


@pytest.fixture(scope="module")
def samples():
    return make_classification(150, 80, n_informative=6, random_state=0)


# -- what is counted -----------------------------------------------------------------------------------


def test_linear_size_counts_nonzero_weights(samples):
    """The size of a linear model is its nonzero weights and its intercept."""
    model = LogisticRegression(l1_ratio=1.0, C=0.05, solver="liblinear").fit(*samples)
    weights = [value for value in (*model.coef_[0], *model.intercept_) if value != 0.0]
    assert 0 < numbers_of(model) == len(weights) < 81


def test_tree_size_counts_thresholds_and_leaves(samples):
    """The size of a tree is its inner nodes and its leaves."""
    tree = DecisionTreeClassifier(max_leaf_nodes=7, random_state=0).fit(*samples)
    inner = int((tree.tree_.children_left >= 0).sum())
    assert numbers_of(tree) == inner + tree.get_n_leaves() == 13


def test_boosting_size_counts_all_nodes(samples):
    """The size of added trees is all their nodes and the baseline."""
    model = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, early_stopping=False).fit(*samples)
    assert numbers_of(model) == 1 + 3 * (3 + 4)


def test_kernel_size_counts_support_vectors(samples):
    """The size of a kernel machine is its support vectors, coefficients and intercept."""
    model = SVC().fit(*samples)
    assert numbers_of(model) == len(model.support_) * 81 + 1


def test_size_looks_inside_wrappers(samples):
    """The size of a pipeline, calibration or search is its final model's."""
    tree = DecisionTreeClassifier(random_state=0)
    search = GridSearchCV(tree, {"max_leaf_nodes": [3]}, cv=2)
    whole = make_pipeline(StandardScaler(), CalibratedClassifierCV(search, cv=2, ensemble=False))
    whole.fit(*samples)
    assert isinstance(final_model(whole), DecisionTreeClassifier)
    assert numbers_of(whole) == 5


def test_unknown_model_has_no_size():
    """A model without a rule is refused by name."""
    with pytest.raises(TypeError, match="numbers of StandardScaler is not known"):
        numbers_of(StandardScaler())


# -- the rivals ----------------------------------------------------------------------------------------


def test_small_lasso_keeps_to_its_limit(samples):
    """The limit holds for the small lasso; without it the model is larger."""
    small, large = SparseLogistic(limit=4).fit(*samples), SparseLogistic().fit(*samples)
    assert numbers_of(small) <= 4 < numbers_of(large)


def test_gaps_and_unseen_levels_are_prepared():
    """A gap becomes the median or a level of its own, an unseen level all zeros."""
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
def test_own_rivals_give_probabilities(samples, own):
    """Probabilities of the benchmarks' own classifiers agree with their labels."""
    X, y = samples
    odds = own.fit(X, y).predict_proba(X)
    assert odds.shape == (150, 2)
    assert np.mean(odds.argmax(axis=1) == own.predict(X)) > 0.9  # Platt's curve may cross a half elsewhere
    assert own.score(X, y) > 0.8


@pytest.mark.parametrize("name", [name for name in RIVALS if f"{LIMIT} numbers" in name])
def test_small_models_keep_to_limit(name, samples):
    """A rival that is called small has at most LIMIT numbers."""
    assert 0 < numbers_of(RIVALS[name].make("numbers", 0).fit(*samples)) <= LIMIT


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


def test_difference_has_interval_over_splits():
    """The interval of a mean difference is Student's, with the variance of dependent splits."""
    rows = cells({OURS[0]: 0.90, "EBM": 0.92}, spread=0.01)
    mean, low, high = page.compared(rows, OURS[0], "EBM")
    apart = -0.02 - 0.01 * (np.arange(10) % 2)
    half = t.ppf(0.975, 9) * apart.std(ddof=1) * np.sqrt(0.1 + 3 / 7)
    np.testing.assert_allclose((mean, low, high), (apart.mean(), apart.mean() - half, apart.mean() + half))


def test_interval_is_nadeau_and_bengios():
    """From the definition, by another route: scipy's own interval is that without the correction."""
    values, ratio = [0.10, 0.14, 0.09, 0.12, 0.16], 1.0 / 3.0
    mean, low, high = interval(values, ratio)
    J = len(values)
    plain = ttest_1samp(values, 0.0).confidence_interval(0.95)
    wider = np.sqrt((1.0 / J + ratio) / (1.0 / J))
    assert mean == pytest.approx(np.mean(values))
    assert [low, high] == pytest.approx(
        [mean - wider * (mean - plain.low), mean + wider * (plain.high - mean)], rel=1e-12
    )
    assert interval(values, 0.0)[1:] == pytest.approx([plain.low, plain.high], rel=1e-12)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.1, 0.1]])
def test_no_interval_without_spread(values):
    """Equal or too few values have no interval."""
    assert np.isnan(interval(values, 0.3)[1:]).all()
