"""The picture of probabilities shows how often they come true."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from polyopt.plots import reliability


def drawn_points(figure):
    [line] = [one for one in figure.axes[0].get_lines() if one.get_label() == "observed"]
    return line.get_xdata(), line.get_ydata()


def test_the_points_are_the_shares_and_the_counts_are_all_samples():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = np.where(rng.random(400) < p**2, "b", "a")
    figure = reliability(y, np.column_stack([1 - p, p]), ["a", "b"], bins=4, title="it")
    said, share = drawn_points(figure)
    order = np.argsort(p).reshape(4, 100)
    assert said == pytest.approx(p[order].mean(axis=1), abs=1e-12)
    assert share == pytest.approx((y == "b")[order].mean(axis=1))
    [text] = [one.get_text() for one in figure.axes[0].texts]
    assert f"Brier score {brier_score_loss(y == 'b', p):.4f}" in text
    assert f"log loss {log_loss(y, np.column_stack([1 - p, p])):.4f}" in text
    assert figure.axes[0].get_title(loc="left") == "it"
    heights = [np.asarray(patch.get_xy())[:, 1].max() for patch in figure.axes[1].patches]
    expected = [np.histogram(p[y == label], np.linspace(0, 1, 21))[0].max() for label in "ba"]
    assert heights == expected
    [bars] = list(figure.axes[0].collections)
    for (low, high), at in zip([s[:, 1] for s in bars.get_segments()], share, strict=True):
        assert 0 <= low <= at <= high <= 1


def test_of_more_classes_it_is_the_one_predicted():
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2]])
    said, share = drawn_points(reliability([0, 1, 0, 1], p, [0, 1, 2], bins=1))
    assert (said, share) == (pytest.approx([0.675]), pytest.approx([0.5]))


@pytest.mark.parametrize(
    ("y", "p", "classes", "bins", "sentence"),
    [
        ([], np.empty((0, 2)), [0, 1], 5, r"probabilities must be \(n, 2\)"),
        ([0, 1], [[0.5, 0.5]], [0, 1], 5, r"they are \(1, 2\) for 2 labels"),
        ([0], [[1.0]], [0], 5, "of 1 classes"),
        ([0, 1], [[0.5, 0.6], [0.5, 0.5]], [0, 1], 5, "add up to 1"),
        ([0, 1], [[np.nan, 0.6], [0.5, 0.5]], [0, 1], 5, "add up to 1"),
        ([0, 7], [[0.5, 0.5], [0.5, 0.5]], [0, 1], 5, r"none of the classes: \[7\]"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], [0, 1], 0, "bins must be an integer of at least 1"),
    ],
)
def test_what_is_no_probability_is_refused(y, p, classes, bins, sentence):
    with pytest.raises(ValueError, match=sentence):
        reliability(y, p, classes, bins=bins)
