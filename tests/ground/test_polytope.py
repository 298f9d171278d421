"""The polytope of a machine: known bodies, invariances, sets with nothing inside, and its words."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from polyopt.polytope import Polytope, halfspaces
from polyopt.polytope.halfspaces import is_optimum


def signs(m):
    """All vectors of m signs."""
    return np.array(list(product([-1.0, 1.0], repeat=m)))


def cube(m):
    return Polytope(np.vstack([np.eye(m), -np.eye(m)]), -np.ones(2 * m))


def simplex(m):
    """x ≥ 0, Σx ≤ 1."""
    return Polytope(np.vstack([-np.eye(m), np.ones(m)]), np.append(np.zeros(m), -1.0))


def octahedron(m):
    """Σ|x| ≤ 1; at a corner 2^(m-1) faces meet."""
    return Polytope(signs(m), -np.ones(2**m))


def random_body(rng, m, K):
    """A bounded polytope around the origin: unit normals that positively span, random distances."""
    W = rng.normal(size=(K, m))
    W[: m + 1] = np.vstack([np.eye(m), -np.ones(m)]) + 0.1 * rng.normal(size=(m + 1, m))
    return Polytope(W / np.linalg.norm(W, axis=1, keepdims=True), -rng.uniform(0.5, 2.0, K))


def sorted_rows(points):
    return points[np.lexsort(np.round(points, 7).T[::-1])]


# -- bodies whose measures are known -------------------------------------------------------------

# Of each body, for m features: its volume, corners, the largest ball's radius, and the faces at each corner.
KNOWN = {
    "cube": lambda m: (cube(m), 2.0**m, signs(m), 1.0, m),
    "simplex": lambda m: (
        simplex(m), 1.0 / math.factorial(m), np.vstack([np.zeros(m), np.eye(m)]), 1.0 / (m + math.sqrt(m)), m,
    ),
    "octahedron": lambda m: (
        octahedron(m), 2.0**m / math.factorial(m), np.vstack([np.eye(m), -np.eye(m)]), 1.0 / math.sqrt(m),
        2 ** (m - 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", KNOWN)
def test_known_body_has_its_measures(name, m):
    """Volume, corners, bounds and largest ball; each corner is there once, and no face is redundant."""
    body, volume, corners, radius, faces = KNOWN[name](m)
    assert body.volume() == pytest.approx(volume, rel=1e-10)
    np.testing.assert_allclose(sorted_rows(body.vertices()), sorted_rows(corners), atol=1e-12)
    assert body.chebyshev().radius == pytest.approx(radius, rel=1e-10)
    np.testing.assert_allclose(body.bounding_box(), [corners.min(0), corners.max(0)], atol=1e-12)
    assert (body.faces_of_vertices().sum(axis=1) == faces).all()
    assert not body.redundant.any()


@pytest.mark.parametrize("m", [2, 3, 6])
@pytest.mark.parametrize(("body", "radius"), [(cube, 0.0), (simplex, 1.0)])
def test_largest_ball_has_its_centre(body, radius, m):
    """The centre of a cube is 0, that of a simplex equally far from every face."""
    ball = body(m).chebyshev()
    np.testing.assert_allclose(ball.centre, radius * ball.radius, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("m", [3, 4])
def test_rounded_corner_stays_one(m):
    """Many faces that miss a common point by rounding have one corner there."""
    body = octahedron(m)
    rng = np.random.default_rng(m)
    rounded = Polytope(body.W * (1.0 + 1e-12 * rng.normal(size=body.W.shape)), body.b)
    assert rounded.vertices().shape == (2 * m, m)
    assert rounded.volume() == pytest.approx(body.volume(), rel=1e-9)


def test_plane_corners_are_in_order():
    """They go round counter-clockwise."""
    x, y = random_body(np.random.default_rng(3), 2, 9).vertices().T
    turned = np.roll(x, -1) * y - x * np.roll(y, -1)
    assert (turned < 0).all()  # the origin is inside, so each edge turns left around it


# -- what must not depend on how it is written ---------------------------------------------------


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), m=st.integers(2, 4), extra=st.integers(0, 8))
def test_measures_move_with_the_set(seed, m, extra):
    """Turned, shifted and scaled, the set has the measures that follow."""
    rng = np.random.default_rng(seed)
    body = random_body(rng, m, m + 2 + extra)
    Q, _ = np.linalg.qr(rng.normal(size=(m, m)))
    shift, factor = rng.normal(size=m) * 10, float(np.exp(rng.normal()))
    order, lengths = rng.permutation(body.n_faces), np.exp(rng.normal(size=body.n_faces))
    # z = factor Q x + shift, faces rescaled and shuffled
    W = body.W @ Q.T / factor
    moved = Polytope(
        (W * lengths[:, None])[order], ((body.b - W @ shift) * lengths)[order], feature_names=None
    )
    assert moved.volume() == pytest.approx(body.volume() * factor**m, rel=1e-8)
    assert moved.chebyshev().radius == pytest.approx(body.chebyshev().radius * factor, rel=1e-8)
    np.testing.assert_array_equal(moved.redundant, body.redundant[order])
    expected = body.vertices() @ Q.T * factor + shift
    assert moved.vertices().shape == expected.shape
    nearest = np.linalg.norm(moved.vertices()[:, None] - expected, axis=2).min(axis=0)
    assert nearest.max() < 1e-7 * factor


@pytest.mark.parametrize("depth", [1e-3, 1e-6])
@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_face_counts_if_it_cuts(m, depth):
    """A face is redundant if and only if it cuts nothing off."""
    for sign in (1.0, -1.0):
        cut = Polytope(np.vstack([cube(m).W, np.ones(m)]), np.append(cube(m).b, sign * m * depth - m))
        np.testing.assert_array_equal(cut.redundant[-1], sign < 0)


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 4), copies=st.integers(1, 3))
def test_of_equal_faces_exactly_one_counts(seed, m, copies):
    """The copies of a face are redundant."""
    rng = np.random.default_rng(seed)
    body = random_body(rng, m, m + 4)
    lengths = np.exp(rng.normal(size=(copies, body.n_faces, 1)))
    faces = np.column_stack([body.W, body.b])
    many = np.concatenate([faces, *(lengths * faces)])
    repeated = Polytope(many[:, :-1], many[:, -1])
    np.testing.assert_array_equal(repeated.redundant[: body.n_faces], body.redundant)
    assert repeated.redundant[body.n_faces :].all()
    assert repeated.volume() == pytest.approx(body.volume(), rel=1e-9)


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), m=st.integers(2, 5), extra=st.integers(0, 25))
def test_redundant_faces_decide_no_point(seed, m, extra):
    """The set without them has the same points inside."""
    rng = np.random.default_rng(seed)
    body = random_body(rng, m, m + 2 + extra)
    reduced = body.without_redundant()
    X = rng.normal(size=(4000, m)) * rng.uniform(0, 3, size=(4000, 1))
    np.testing.assert_array_equal(reduced.contains(X), body.contains(X))
    # Rays from the origin leave the body through a face that is not redundant.
    exits = body.W @ X.T / -body.b[:, None]
    assert not body.redundant[np.argmax(exits, axis=0)].any()


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 5), extra=st.integers(0, 8))
def test_largest_ball_touches_faces(seed, m, extra):
    """Its radius is the distance of its centre to the nearest face, and two faces are that near."""
    body = random_body(np.random.default_rng(seed), m, m + 2 + extra)
    ball = body.chebyshev()
    distances = -(body.scores(ball.centre[None]) / np.linalg.norm(body.W, axis=1))[0]
    assert distances.min() == pytest.approx(ball.radius, rel=1e-9)
    assert (distances < ball.radius * (1 + 1e-7)).sum() >= 2


# -- scales --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1e6, 1e12])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_body_of_any_size(size, m):
    """Sizes of many decades have their volume, corners and ball."""
    body = Polytope(simplex(m).W, simplex(m).b * size)
    assert body.volume() == pytest.approx(size**m / math.factorial(m), rel=1e-9)
    assert body.chebyshev().radius == pytest.approx(size / (m + math.sqrt(m)), rel=1e-9)
    assert not body.redundant.any()
    assert body.is_bounded


@pytest.mark.parametrize(
    ("offset", "size"), [(1e6, 1e-3), (1e9, 1.0), (1e-12, 1e-13), (-1e12, 1e6), (1.0, 1e-10)]
)
def test_small_body_far_away(offset, size):
    """A body is not lost next to the size of its offset, and turned inside out it is empty."""
    W = cube(2).W
    body = Polytope(np.vstack([W, W]), np.append(-size - W @ [offset, 0], -1.5 * size - W @ [offset, 0]))
    rounding = 8 * np.finfo(float).eps * abs(offset) / size
    assert body.volume() == pytest.approx(4 * size**2, rel=1e-9 + 4 * rounding)
    assert body.chebyshev().radius == pytest.approx(size, rel=1e-9 + rounding)
    np.testing.assert_array_equal(body.redundant, np.arange(8) >= 4)
    assert Polytope(W, size - W @ [offset, 0]).is_empty


def test_features_in_extreme_units():
    """Volume and redundant faces do not depend on the units of features."""
    units = np.array([1e-12, 1e12, 1.0])
    plain = random_body(np.random.default_rng(1), 3, 9)
    body = Polytope(plain.W / units, plain.b)
    assert body.volume() == pytest.approx(plain.volume(), rel=1e-8)  # the units' product is one
    np.testing.assert_array_equal(body.redundant, plain.redundant)
    np.testing.assert_allclose(sorted_rows(body.vertices() / units), sorted_rows(plain.vertices()), atol=1e-8)
    np.testing.assert_allclose(body.bounding_box(), plain.bounding_box() * units, rtol=1e-8)


def test_face_of_rounding_changes_nothing():
    """A normal that is rounding is no constraint."""
    body = Polytope(np.vstack([cube(2).W, [[1e-17, 3e-18]]]), np.append(cube(2).b, -1.0))
    np.testing.assert_array_equal(body.redundant, [False] * 4 + [True])
    assert body.volume() == pytest.approx(4.0, rel=1e-12)


def test_wrong_answer_is_not_believed(monkeypatch):
    """A solver that states a false optimum is found out by its own multipliers."""
    asked, spoilt = [], {"highs-ds"}

    def wrong(*program, method, **settings):
        asked.append(method)
        found = linprog(*program, method=method, **settings)
        found.x = found.x * 1.001 if method in spoilt else found.x
        return found

    monkeypatch.setattr(halfspaces, "linprog", wrong)
    assert simplex(3).chebyshev().radius == pytest.approx(1.0 / (3 + math.sqrt(3)), rel=1e-9)
    spoilt.add("highs-ipm")
    with pytest.raises(RuntimeError, match="could not solve a linear program of 4 faces"):
        simplex(3).chebyshev()
    assert asked[-2:] == ["highs-ds", "highs-ipm"]


RIGHT = {"x": [1.0, 1.0], "y": [2.0, 1.0, 0.0, 0.0]}
WRONG = {
    "outside": {"x": [1.01, 1.0]},
    "inside": {"x": [0.99, 1.0]},
    "multiplier too large": {"y": [2.01, 1.0, 0.0, 0.0]},
    "multiplier too small": {"y": [2.0, 0.99, 0.0, 0.0]},
    "not in balance": {"y": [1.0, 1.0, 0.0, 0.0]},
    # In balance, and the gap is closed with them; but a negative multiplier pays for a positive one.
    "negative multiplier": {"x": [1.0, -1.0], "y": [2.0, 0.0, 0.0, -1.0]},
    "other negative multiplier": {"x": [-1.0, 1.0], "y": [0.0, 1.0, -2.0, 0.0]},
}


@pytest.mark.parametrize("change", [{}, *WRONG.values()], ids=["right", *WRONG])
def test_optimum_is_proven_by_duality(change):
    """The corner of a square is optimal by its multipliers; moved, or with other ones, it proves nothing."""
    A, cost = np.vstack([np.eye(2), -np.eye(2)]), np.array([2.0, 1.0])
    given = {name: np.array(values) for name, values in {**RIGHT, **change}.items()}
    assert is_optimum(cost, A, np.ones(4), **given) == (change == {})


# -- sets with nothing inside, without end, without width ----------------------------------------


def test_empty_polytope_names_contradiction():
    """The faces that contradict each other are named."""
    # Three faces that only together shut out everything, and two that are no part of it.
    body = Polytope([[1, 0], [-1, 0.5], [0, -1], [0, 1], [-1, -1]], [0, 0, 1, -9, -9])
    assert body.is_empty
    assert body.is_bounded
    assert body.volume() == 0.0
    np.testing.assert_array_equal(body.redundant, [False, False, False, True, True])
    assert body.without_redundant().is_empty
    for ask in (body.chebyshev, body.vertices, body.bounding_box):
        with pytest.raises(ValueError, match=r"empty .*faces 0, 1, 2$"):
            ask()
    assert "empty" in str(body)
    assert "no point is inside" in body.rules()


@given(gap=st.floats(-1e-3, 1e-3, allow_subnormal=False), offset=st.sampled_from([0.0, 1.0, 300.0]))
def test_gap_decides_on_empty(gap, offset):
    """Two parallel faces leave room, or none, by the sign of their gap."""
    # offset ≤ x ≤ offset + gap, as floating point has it
    upper = offset + gap
    body = Polytope([[1.0], [-1.0]], [-upper, offset])
    rounding = 64 * np.finfo(float).eps * offset
    if upper - offset > rounding:
        assert not body.is_empty
        assert body.volume() == pytest.approx(upper - offset, rel=1e-6, abs=rounding)
    elif upper - offset < -rounding:
        assert body.is_empty
    elif upper == offset:
        assert body.is_flat


def test_flat_polytope():
    """A set without inside has volume 0 and says that it is flat."""
    body = Polytope([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 0]], [-0.3, 0.3, -1, 0, -0.3])
    assert body.is_flat
    assert not body.is_empty
    assert body.volume() == 0.0
    assert body.chebyshev().radius == 0.0
    assert "flat" in str(body)
    np.testing.assert_array_equal(body.redundant, [False, False, False, False, True])
    np.testing.assert_allclose(body.bounding_box(), [[0.3, 0.0], [0.3, 1.0]], atol=1e-12)
    with pytest.raises(ValueError, match="flat"):
        body.vertices()


def test_one_face():
    """A half-space is unbounded, has balls of any size, and corners within a box alone."""
    body = Polytope([[3.0, 4.0]], [-10.0])
    assert not body.is_bounded
    assert body.volume() == np.inf
    assert body.chebyshev().radius == np.inf
    assert body.contains(body.chebyshev().centre[None]).all()
    assert "any size" in str(body.chebyshev())
    assert not body.redundant.any()
    np.testing.assert_array_equal(body.bounding_box(), [[-np.inf] * 2, [np.inf] * 2])
    with pytest.raises(ValueError, match=r"unbounded.*within"):
        body.vertices()
    assert body.within(0.0, [3.0, 2.0]).volume() == pytest.approx(6.0 - 0.5 * (7 / 3) * (7 / 4))


@given(seed=st.integers(0, 10**6), m=st.integers(2, 4))
def test_faces_through_one_point_are_flat(seed, m):
    """A simplex of no size is flat; larger it is not, and smaller it is empty."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(m + 1, m))
    W[m] = -W[:m].sum(axis=0)  # the simplex of no size around x, but for rounding
    body = Polytope(W, -(W @ rng.normal(size=m) * 10))
    assert body.is_flat
    assert body.volume() == 0.0
    assert not Polytope(W, body.b - 1e-9).is_flat
    assert Polytope(W, body.b + 1e-9).is_empty


@pytest.mark.parametrize("slope", [1e-3, 1e-5, 1e-6])
@pytest.mark.parametrize("angle", [0.0, 0.3, 0.785, 2.0])
def test_narrow_wedge_is_unbounded(angle, slope):
    """It is told from a needle in any direction."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    needle = Polytope(np.array([[slope, 1.0], [slope, -1.0], [-1.0, 0.0]]) @ turn.T, [-1.0, -1.0, 0.0])
    wedge = Polytope(np.array([[-slope, 1.0], [-slope, -1.0], [-slope, 0.5]]) @ turn.T, [-1.0, -1.0, 0.0])
    assert needle.is_bounded
    assert needle.volume() == pytest.approx(1 / slope, rel=1e-6)
    assert not wedge.is_bounded
    assert wedge.volume() == np.inf


def test_strip_has_largest_ball():
    """Though the strip is unbounded."""
    body = Polytope([[1.0, 1.0], [-1.0, -1.0], [2.0, 2.0]], [-3.0, 1.0, -9.0])
    assert body.chebyshev().radius == pytest.approx(1 / math.sqrt(2))
    assert not body.is_bounded
    np.testing.assert_array_equal(body.bounding_box(), [[-np.inf] * 2, [np.inf] * 2])


def test_faces_without_a_normal():
    """Such a face is redundant, or empties the set, by the sign of its offset."""
    never = Polytope([[0.0, 0.0], [1.0, 0.0]], [-1.0, 0.0])
    np.testing.assert_array_equal(never.redundant, [True, False])
    assert not never.is_empty
    always = Polytope([[0.0, 0.0], [1.0, 0.0]], [1e-9, 0.0])
    assert always.is_empty
    np.testing.assert_array_equal(always.redundant, [False, True])
    everything = never.without_redundant().section([1], [-5.0, 0.0]).without_redundant()
    assert everything.n_faces == 0
    assert everything.chebyshev().radius == np.inf
    assert everything.contains(np.array([[1e9]])).all()


def test_too_much_work_is_refused():
    """Corners and volumes of too many features or faces are refused in a sentence."""
    with pytest.raises(ValueError, match="at most 8 features"):
        cube(9).vertices()
    assert cube(9).chebyshev().radius == pytest.approx(1.0)
    body = random_body(np.random.default_rng(0), 8, 200)
    with pytest.raises(ValueError, match=r"may have .* corners"):
        body.volume()


# -- points --------------------------------------------------------------------------------------


def test_sparse_points_have_dense_scores(rng):
    """Scores and least faces of sparse points are those of dense ones."""
    body = random_body(rng, 3, 7)
    X = np.where(rng.random((50, 3)) < 0.5, 0.0, rng.normal(size=(50, 3)) * 2)
    expected = np.array([[w @ x + b for w, b in zip(body.W, body.b, strict=True)] for x in X])
    for points in (X, X.tolist(), sp.csr_array(X), sp.csr_matrix(X)):
        np.testing.assert_allclose(body.scores(points), expected, atol=1e-12)
        np.testing.assert_array_equal(body.active_face(points), expected.argmax(axis=1))
        np.testing.assert_array_equal(body.contains(points), expected.max(axis=1) <= 0)
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        body.scores(np.ones((2, 4)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [0.0]), "W must have 2"),
        (([[1.0]], [0.0, 1.0]), "b must have shape"),
        (([[np.nan]], [0.0]), "finite"),
        (([[1.0]], [0.0], ("a", "b")), "feature_names"),
        (([[1.0]], [0.0], None, [0.0]), "spread"),
        ((np.ones((1, 0)), [0.0]), "at least one column"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    """Each bad argument is named."""
    with pytest.raises(ValueError, match=message):
        Polytope(*arguments)


def test_polytope_is_frozen_and_pickled(rng):
    """Its arrays cannot be written, and a pickle is equal."""
    body = random_body(rng, 3, 9)
    with pytest.raises(ValueError, match="read-only"):
        body.W[0, 0] = 1.0
    spare = body.redundant
    again = pickle.loads(pickle.dumps(body))
    np.testing.assert_array_equal(again.W, body.W)
    np.testing.assert_array_equal(again.redundant, spare)


def test_section_holds_other_features(rng):
    """A section is the set with some features fixed."""
    body = random_body(rng, 4, 9)
    at = rng.normal(size=4) * 0.1
    Z = rng.normal(size=(20, 2))
    X = np.tile(at, (20, 1))
    X[:, [2, 0]] = Z
    np.testing.assert_allclose(body.section([2, 0], at).scores(Z), body.scores(X), atol=1e-12)


# -- words ---------------------------------------------------------------------------------------


def test_rules_read_as_a_classifier():
    """Rules in words name the class, the faces and the features."""
    body = Polytope(
        [[0.52, -1.2, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [-1.0, 0.0, 0.0]],
        [-3.4, -1.0, -2.0, 0.0],
        ("petal length", "petal width", "sepal width"),
    )
    assert body.rules(inside="benign", outside="malignant").splitlines() == [
        "Inside, class 'benign', unless one of these holds; then outside, class 'malignant':",
        "  face 0: outside if -1.2 petal width + 0.52 petal length > 3.4",
        "  face 1: outside if 1 sepal width > 1",
        "  face 2: outside if 2 sepal width > 2  [redundant: leaving it out changes nothing]",
        "  face 3: outside if -1 petal length > 0",
    ]


def test_rules_show_weightiest_terms():
    """The terms left out are counted."""
    W, b = [[1.0, 10.0, 0.1, 5.0]], [-1.23456789]
    body = Polytope(W, b, ("a", "b", "c", "d"), spread=[1.0, 0.01, 100.0, 1.0])
    first = "  face 0: outside if 0.1 c + 5 d + "
    assert body.rules().splitlines()[1] == first + "1 a + 10 b > 1.235"
    assert body.rules(digits=2, max_terms=2).splitlines()[1] == first + "(2 smaller terms) > 1.2"
    for wrong in ({"digits": 0}, {"max_terms": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            body.rules(**wrong)


def test_rules_name_unused_faces(rng):
    """A face that decides nothing is said to be never or always outside."""
    scaled = Polytope.from_scaled([[1.0, 0.0], [1e-14, 2e-15]], [-1.0, -1.0], [5.0, 0.0], [1e-3, 1e3])
    assert "face 1: never outside" in scaled.rules()
    assert Polytope([[0.0]], [1.0]).rules().startswith("Always outside")
    assert Polytope([[0.0]], [-1.0]).rules().startswith("Inside, always")


def test_small_normal_is_kept():
    """Known spreads: a face that moves by less than 1e-9 of its offset over the data is called no face."""
    W = np.array([[1e-7, 0.0], [1e-5, 0.0], [1e-7, 0.0]])
    body = Polytope(W, np.array([1e3, 1e3, -1.0]), spread=np.array([1.0, 1.0]))
    lines = body.rules().splitlines()
    assert sum("its normal is 0 but for rounding" in line for line in lines) == 1
    assert any("always outside: its normal is 0 but for rounding" in line for line in lines)
