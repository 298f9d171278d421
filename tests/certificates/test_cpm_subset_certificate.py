"""Certificates of faces with few features: claims that hold, and points and trees that must fail."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.cpm.certificate_restricted import SubsetTree, certify_cpm_subset
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_features import search_subset


@pytest.fixture(scope="module")
def solved():
    """One face of two features out of six, with its multipliers and its tree."""
    X, y = two_blobs(n=50, m=6, seed=4)
    c = np.where(y > 0, 0.7, 0.5)
    search, _ = search_subset(SubsetFace(X, y, c, 2))
    alpha = np.zeros((len(y), 1))
    alpha[search.face.rows, 0] = search.best.alpha
    return X, y, c, search.best.w[None, :], alpha, search.tree.table()


def certify(solved, **changed):
    X, y, c, W, alpha, tree = solved
    given = {"W": W, "alpha": alpha, "trees": [tree], "max_features": 2, **changed}
    return certify_cpm_subset(X, y, c, **given)


def test_attained_bound_is_optimal(solved):
    """A face that attains the bound of its search tree is optimal."""
    found = certify(solved)
    assert found.claim is Claim.OPTIMAL
    assert "search tree" in found.note
    assert found.dual_value <= found.primal_value


def test_root_alone_proves_less(solved):
    """Without the tree the bound is the root's, and the note says so."""
    for alpha in (None, solved[4]):
        found = certify(solved, trees=None, alpha=alpha)
        assert found.claim is Claim.SUBOPTIMAL_BY
        assert "root alone" in found.note
        assert 0 < found.dual_value < certify(solved).dual_value


@pytest.mark.parametrize("change", ["scaled", "bias", "other feature", "more features"])
def test_perturbed_face_is_not_optimal(solved, change):
    """A face that is off is suboptimal, and one with more features has no claim."""
    W = solved[3].copy()
    if change == "scaled":
        W *= 1.01
    elif change == "bias":
        W[0, -1] += 1e-2
    elif change == "other feature":
        W[0, :-1] = np.roll(W[0, :-1], 1)
    else:
        W[0, :-1] += 1e-9
    found = certify(solved, W=W)
    assert found.claim is (Claim.NONE if change == "more features" else Claim.SUBOPTIMAL_BY)


def test_false_tree_proves_less_or_is_refused(solved):
    """Bounds of a tree are computed anew, and a tree that leaves faces out is refused."""
    X, tree = solved[0], solved[5]
    best = certify(solved).dual_value
    # Its bounds are computed anew: points that prove nothing leave a bound of nothing.
    empty = tree.copy()
    empty[:, 4:] = 1e3 * np.random.default_rng(0).normal(size=empty[:, 4:].shape)
    assert certify(solved, trees=[empty]).dual_value < 0.9 * best
    # A node made a leaf has the bound of a leaf.
    first = tree.copy()
    first[0, :3] = -1
    assert certify(solved, trees=[first]).dual_value < best
    # A branch on the same feature again, a child before its parent, a feature that is none.
    children = tree[:, 1:3].astype(int)
    inner = [n for n in range(len(tree)) if tree[n, 0] >= 0]
    parent, child = next((n, c) for n in inner for c in children[n] if tree[c, 0] >= 0)
    twice, back, none = tree.copy(), tree.copy(), tree.copy()
    twice[child, 0] = tree[parent, 0]
    back[child, 1] = parent
    none[0, 0] = X.shape[1]
    for wrong, words in (
        (twice, "twice"),
        (back, "larger than its parent"),
        (none, "a tree over 6 features"),
    ):
        with pytest.raises(ValueError, match=words):
            certify(solved, trees=[wrong])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"trees": []}, "one for each of the 1 faces"),
        ({"trees": [np.zeros((2, 3))]}, "must have 11 columns"),
        ({"trees": [np.full((1, 11), np.nan)]}, "finite"),
        ({"max_features": 0}, "max_features must be"),
        ({"W": np.full((1, 7), np.inf)}, "W must be finite"),
        ({"alpha": np.ones((3, 1))}, "alpha must be finite, of shape 50"),
    ],
)
def test_broken_tree_or_face_is_refused(solved, changed, words):
    """Trees, faces and multipliers of another shape are refused."""
    with pytest.raises(ValueError, match=words):
        certify(solved, **changed)


def test_tree_comes_back_from_table(solved):
    """A tree has the table that it was made from."""
    table = solved[5]
    assert (SubsetTree.from_table("tree", table, 6).table() == table).all()
