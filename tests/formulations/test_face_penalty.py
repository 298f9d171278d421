"""The price on weights: its map is the minimiser it is said to be, and what it may be of."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from formulations.cpm_sparse import dual_terms, primal_terms
from formulations.face_penalty import FacePenalty

M, K = 5, 3


@st.composite
def penalties(draw):
    prices = st.sampled_from([0.0, 0.5, 2.0, 50.0])
    groups = [draw(st.integers(0, 2)) for _ in range(M)]
    signs = [draw(st.sampled_from([-1, 0, 1])) for _ in range(M)]
    return FacePenalty.of(M, l1=draw(prices), group=draw(prices), signs=signs, groups=groups)


def won(penalty, V, W):
    """⟨V, W⟩ − ‖W‖² − the price: what the conjugate is the largest of."""
    return float((V * W).sum() - (W**2).sum() - penalty.value(W))


@drawn(penalties(), st.integers(0, 10**6))
def test_shrunk_faces_attain_the_conjugate(penalty, seed):
    """No faces of the right signs win more of ⟨V, W⟩ − ‖W‖² − price."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(K, M + 1)) * rng.choice([0.1, 1.0, 10.0])
    V[rng.random(V.shape) < 0.2] = 0.0
    W = 0.5 * penalty.shrunk(V)
    conjugate = 0.25 * float((penalty.shrunk(V) ** 2).sum())
    assert (penalty.signs * W[:, :-1] >= 0).all()
    assert won(penalty, V, W) == pytest.approx(conjugate, rel=1e-12, abs=1e-12)
    for size in (1e-6, 1e-2, 1.0):
        other = penalty.enforce_signs(W + size * rng.normal(size=W.shape) * (rng.random(W.shape) < 0.5))
        assert won(penalty, V, other) <= conjugate * (1 + 1e-12) + 1e-12


@drawn(penalties(), st.integers(0, 10**6))
def test_map_is_nonexpansive(penalty, seed):
    """Two pulls are no farther apart once shrunk."""
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, K, M + 1)) * 3
    apart = np.linalg.norm(penalty.shrunk(one) - penalty.shrunk(other))
    assert apart <= np.linalg.norm(one - other) * (1 + 1e-12)


def test_group_leaves_together():
    """A group of features is zero together; biases are not shrunk."""
    penalty = FacePenalty.of(3, group=5.0, groups=[[0, 2]])
    W = penalty.shrunk(np.array([[3.0, 6.0, 1.0, 9.0], [1.0, 0.0, 2.0, -9.0]]))
    assert W.tolist() == [[0.0, 1.0, 0.0, 9.0], [0.0, 0.0, 0.0, -9.0]]
    assert penalty.groups.tolist() == [0, 1, 0]
    assert penalty.features(W).tolist() == [1]


REFUSED = [
    ({"l1": -1.0}, "l1 must be"),
    ({"l1": np.nan}, "l1 must be"),
    ({"group": np.inf}, "group must be"),
    ({"signs": {7: 1}}, "signs must name features from 0 to 2, not 7"),
    ({"signs": {0: 2}}, r"signs must be -1, 0 or \+1, not 2"),
    ({"signs": [1, 0]}, "one entry for each of the 3"),
    ({"signs": [1, 0, np.nan]}, "signs must be -1, 0 or"),
    ({"groups": [[0, 1], [1]]}, "feature 1 is in two"),
    ({"groups": [[0, 5]]}, "groups must name features from 0 to 2, not 5"),
    ({"groups": [[]]}, "none of them empty"),
    ({"groups": [0, 1]}, "a label for each of the 3 features, not 2"),
    ({"groups": 4}, "a label for each feature, or lists"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_wrong_price_is_refused(given, sentence):
    """Prices, signs and groups are refused by name."""
    with pytest.raises(ValueError, match=sentence):
        FacePenalty.of(3, **given)


def test_absent_price_and_labelled_groups():
    """A price of nothing is absent; labels are groups."""
    assert FacePenalty.of(3, signs=[0, 0, 0], groups=["a", "b", "a"]).is_absent
    assert FacePenalty.of(3, groups=["a", "b", "a"]).groups.tolist() == [0, 1, 0]
    assert not FacePenalty.of(3, signs={2: -1}).is_absent


@pytest.mark.parametrize(("prices", "rows"), [
    ({}, []),
    ({"l1": 0.5}, ["upper", "lower"]),
    ({"group": 0.5}, ["group"]),
    ({"signs": [1, 0, -1]}, ["sign"]),
])  # fmt: skip
def test_program_has_constraints_of_its_prices(prices, rows):
    """Each price adds its constraints to primal and dual, and only it."""
    penalty = FacePenalty.of(3, **prices)
    assert [row.name for row in dual_terms(penalty, 2).rows] == rows
    assert [row.name for row in primal_terms(penalty, cp.Variable((2, 4))).rows] == rows
