"""Generated sets: what they promise, that seeds hold, and what is refused."""

import numpy as np
import pytest
from sklearn.svm import SVC

from polyopt import datasets

MADE = [getattr(datasets, name) for name in datasets.__all__ if name.startswith("make_")]


@pytest.mark.parametrize("make", MADE)
def test_seed_determines_data(make):
    """A seed gives the same samples of both classes, and another seed others; no samples are refused."""
    first, again, other = (make(n_samples=60, random_state=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert len(first[0]) == len(first[1]) == 60
    assert set(first[1]) == {-1, 1}
    with pytest.raises(ValueError, match="n_samples must be"):
        make(0)


@pytest.mark.parametrize("margin", [0.0, 0.1, 3.0])
@pytest.mark.parametrize(("m", "K"), [(1, 1), (1, 2), (2, 7), (50, 5)])
def test_polytope_points_keep_margin(m, K, margin):
    """Every point is on its side of the polytope by the margin."""
    X, y, W, b = datasets.make_polytope(400, m, K, margin=margin, random_state=0)
    assert (W.shape, b.shape, X.shape) == ((K, m), (K,), (400, m))
    assert np.allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-14)
    assert (y * (X @ W.T + b).min(axis=1) >= margin).all()
    assert 0.35 < (y == 1).mean() < 0.65


@pytest.mark.parametrize(("m", "K"), [(1, 2), (2, 3), (2, 7), (3, 12), (10, 4)])
def test_every_face_of_the_polytope_is_needed(m, K):
    """On each face there is a point strictly inside all other half-spaces: where the inner ball touches."""
    _, _, W, b = datasets.make_polytope(10, m, K, random_state=5)
    # The ball's centre c and radius r solve W c + b = r.
    solution = np.linalg.lstsq(np.column_stack([W, -np.ones(K)]), -b, rcond=None)[0]
    centre, radius = solution[:m], solution[m]
    assert np.allclose(W @ centre + b, radius)
    for k in range(K):
        others = np.delete(np.arange(K), k)
        touch = np.linalg.lstsq(W[[k]], np.array([-b[k] - W[k] @ centre]), rcond=None)[0] + centre
        assert abs(W[k] @ touch + b[k]) < 1e-12
        assert (W[others] @ touch + b[others] > 1e-9).all()


def test_noise_flips_its_share():
    """The number of wrong labels is the share asked for."""
    clean = datasets.make_polytope(200, 3, 4, random_state=2)
    noisy = datasets.make_polytope(200, 3, 4, noise=0.13, random_state=2)
    assert (clean[1] != noisy[1]).sum() == 26
    assert all(np.array_equal(clean[i], noisy[i]) for i in (0, 2, 3))


def test_faces_do_not_depend_on_count():
    """One seed has one polytope, however many points are drawn."""
    few, many = (datasets.make_polytope(n, 3, 4, random_state=2) for n in (10, 1000))
    assert np.array_equal(few[2], many[2])
    assert np.array_equal(few[3], many[3])


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (datasets.make_polytope, {"n_samples": 0}, "n_samples must be an integer of at least 1, not 0"),
        (datasets.make_polytope, {"n_features": 0}, "n_features must be an integer of at least 1"),
        (datasets.make_polytope, {"n_faces": 0}, "n_faces must be an integer of at least 1"),
        (datasets.make_polytope, {"n_samples": 10.5}, "n_samples must be an integer"),
        (datasets.make_polytope, {"n_features": 1, "n_faces": 3}, "n_faces must be at most 2"),
        (datasets.make_polytope, {"margin": -0.1}, "margin must be"),
        (datasets.make_polytope, {"margin": np.nan}, "margin must be"),
        (datasets.make_polytope, {"noise": 0.6}, r"noise must lie in \[0, 0.5\]"),
        (datasets.make_two_lines, {"n_samples": 3}, "n_samples"),
        (datasets.make_two_lines, {"scale": 0.0}, "scale"),
        (datasets.make_two_lines, {"scale": np.inf}, "scale"),
    ],
)
def test_bad_arguments_are_refused(make, arguments, message):
    """Each bad argument is named."""
    with pytest.raises(ValueError, match=message):
        make(**arguments)


@pytest.mark.parametrize(
    ("make", "which", "m", "K"),
    [(datasets.make_polyceptron1, 1, 10, 3), (datasets.make_polyceptron2, 2, 20, 4)],
)
def test_polyceptron_labels_follow_its_faces(make, which, m, K):
    """A point is positive if no face's score is negative."""
    X, y = make(random_state=0)
    W, b = datasets.polyceptron_faces(which)
    assert (X.shape, W.shape, b.shape) == ((1000, m), (K, m), (K,))
    assert np.abs(X).max() <= 1.0
    inside = np.array([all(w @ x + c >= 0 for w, c in zip(W, b, strict=True)) for x in X])
    assert np.array_equal(y == 1, inside)
    assert 0.4 < inside.mean() < 0.55  # both papers' sets are nearly balanced


def test_polyceptron_faces_as_printed():
    """The faces are those printed, a copy of which is returned."""
    W, b = datasets.polyceptron_faces(1)
    assert b.tolist() == [1, 1, 0.5]
    assert W[1].tolist() == [1, -1] * 5
    W, b = datasets.polyceptron_faces(2)
    assert b.tolist() == [20, 15, 8, 6]
    assert {j + 1: v for j, v in enumerate(W[3]) if v} == {
        1: 1, 2: -1, 5: 2, 6: -2, 9: 6, 10: -3, 13: 4, 14: -4, 17: 5, 18: -5,
    }  # fmt: skip
    W[0] = 0  # a copy: the next caller gets the faces untouched
    assert datasets.polyceptron_faces(2)[0][0].any()
    with pytest.raises(ValueError, match="dataset must be 1 or 2; got 3"):
        datasets.polyceptron_faces(3)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 10.0])
def test_two_lines_have_their_two_known_answers(scale):
    """The largest margin is between the near ends; at B = 1 every point is on its label."""
    X, y = datasets.make_two_lines(40, scale=scale, random_state=3)
    # Relative margin with B = 1: the only w, b that project every point exactly to its label.
    augmented = np.column_stack([X, np.ones(40)])
    w, _, rank, _ = np.linalg.lstsq(augmented, y, rcond=None)
    assert rank == 3
    assert np.allclose(augmented @ w, y, atol=1e-12)
    assert np.allclose(w, [-2 / scale, 2, 0], atol=1e-12)
    # Largest margin: between the near ends.
    machine = SVC(kernel="linear", C=1e6, tol=1e-10).fit(X, y)
    p = np.array([scale / 4, 3 / 4])
    assert np.allclose(machine.coef_[0], p / (p @ p), rtol=1e-6)
    assert abs(machine.intercept_[0]) < 1e-6


def test_scale_changes_first_axis_alone():
    """The second coordinate and the labels do not depend on the scale."""
    X, y = datasets.make_two_lines(20, random_state=1)
    scaled, same = datasets.make_two_lines(20, scale=8.0, random_state=1)
    assert np.array_equal(y, same)
    assert np.array_equal(scaled, X * [8.0, 1.0])
    assert np.allclose(X[:, 1] - X[:, 0], 0.5 * y)
