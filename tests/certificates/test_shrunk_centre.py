"""The interior-point method for the dual of a polytope with a price: its equations, one by one."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.samples import two_blobs
from polyopt.certificates import shrunk_centre
from polyopt.certificates.shrunk_centre import CentralPath

K, M = 2, 4
PRICES = {
    "l1": {"l1": 0.7},
    "signs": {"signs": {0: 1, 2: -1}},
    "l1 and signs": {"l1": 0.4, "signs": {1: 1}},
    "group": {"group": 0.9, "groups": [[0, 1], [2]]},
    "all": {"l1": 0.3, "group": 0.6, "groups": [[1, 3]], "signs": {0: -1, 3: 1}},
}


def drawn(prices, seed=0):
    """A path at a point within all bounds that solves nothing."""
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=14, m=M, seed=seed)
    caps = np.where(rng.random((14, K)) < 0.2, 0.0, rng.uniform(0.5, 2.0, (14, K)))
    path = CentralPath(X, y, caps, FacePenalty.of(M, **prices))
    path.alpha = np.where(path.live, rng.uniform(0.1, 0.9, caps.shape) * path.caps, 0.0)
    path.W = rng.normal(size=path.W.shape)
    path.s, path.t = rng.uniform(0.5, 2.0, caps.shape), rng.uniform(0.5, 2.0, caps.shape)
    path.r = path.r + rng.uniform(-0.2, 0.2, path.r.shape)
    for name in ("over", "under"):
        setattr(path, name, getattr(path, name) * rng.uniform(0.5, 2.0, path.r.shape))
    if path.grouped:
        path.q = rng.uniform(-0.25, 0.25, path.q.shape)
        path.z = rng.uniform(0.5, 2.0, path.z.shape)
    path.gap()  # V and the slopes at this point
    return path


def equations(path, x):
    """What is to be 0 at a point x, and the products that are to be μ there."""
    pulls = path.y * x["alpha"]
    V = np.column_stack([(path.X.T @ pulls).T, pulls.sum(axis=0)])
    whole = 2.0 * x["W"] - V
    whole[:, :-1][:, path.priced] += x["r"]
    slope = 1.0 - path.y * (path.X @ x["W"][:, :-1].T + x["W"][:, -1])
    weights = x["W"][:, :-1]
    zero = {
        "faces": whole,
        "slopes": np.where(path.live, slope + x["s"] - x["t"], 0.0),
        "prices": weights[:, path.priced] - x["over"] + x["under"],
    }
    finite = {
        "over": np.where(np.isinf(path.up), 1.0, path.up),
        "under": np.where(np.isinf(path.down), 1.0, path.down),
    }
    products = {
        "s": np.where(path.live, x["s"] * x["alpha"], np.nan),
        "t": np.where(path.live, x["t"] * (path.caps - x["alpha"]), np.nan),
        "over": np.where(path.over > 0.0, x["over"] * (finite["over"] - x["r"]), np.nan),
        "under": np.where(path.under > 0.0, x["under"] * (finite["under"] + x["r"]), np.nan),
    }
    if path.grouped:
        whole[:, :-1] += x["q"]
        groups = path.penalty.groups
        zero["groups"] = weights - x["z"][groups] * x["q"]
        lengths = np.bincount(groups, (x["q"] ** 2).sum(0), minlength=len(x["z"]))
        products["z"] = x["z"] * (path.penalty.group**2 - lengths)
    return zero, products


@pytest.mark.parametrize("prices", PRICES)
def test_a_newton_step_solves_the_equations_to_first_order(prices):
    path, centre = drawn(PRICES[prices]), 0.3
    way = path._way(path._factor(), centre, {})
    assert not any(way[name][~path.live].any() for name in ("alpha", "s", "t"))  # what has no cap stays
    here = {name: getattr(path, name) for name in way}
    change = {}
    for h in (-1e-5, 1e-5):
        change[h] = equations(path, {name: here[name] + h * way[name] for name in way})
    zero, products = equations(path, here)
    for name, value in zero.items():
        rate = (change[1e-5][0][name] - change[-1e-5][0][name]) / 2e-5
        assert rate == pytest.approx(-value, abs=1e-7), name
    for name, value in products.items():
        rate = (change[1e-5][1][name] - change[-1e-5][1][name]) / 2e-5
        assert rate == pytest.approx(centre - value, abs=1e-7, nan_ok=True), name


@pytest.mark.parametrize("prices", PRICES)
def test_a_step_ends_within_all_bounds_and_the_longest_one_at_one_of_them(prices):
    path = drawn(PRICES[prices], seed=3)
    way = path._way(path._factor(), 0.0, {})
    way = {name: 50.0 * part for name, part in way.items()}  # certainly beyond a bound
    length = path._longest(way)

    def least(share):
        for name, part in way.items():
            setattr(path, name, getattr(path, name) + share * length * part)
        rooms = [path.alpha[path.live], (path.caps - path.alpha)[path.live], path.s, path.t]
        for one, room in ((path.over, path.up - path.r), (path.under, path.down + path.r)):
            rooms += [one[room < np.inf], room[room < np.inf]]
        rooms += [path.z, path._room()] if path.grouped else []
        for name, part in way.items():
            setattr(path, name, getattr(path, name) - share * length * part)
        return min(part.min(initial=np.inf) for part in rooms)

    assert 0.0 < length < 1.0
    assert least(0.999) > 0.0
    assert least(1.001) < 0.0
    assert least(1.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("prices", PRICES)
def test_a_path_near_some_faces_begins_with_like_products_and_only_the_faces_equation_open(prices):
    before = drawn(PRICES[prices], seed=3)
    caps = np.where(before.live, before.caps, 0.0)
    near = np.random.default_rng(4).normal(size=before.W.shape)
    path = CentralPath(before.X, before.y[:, 0], caps, before.penalty, near)
    state = {name: getattr(path, name) for name in ("W", "alpha", "s", "t", "r", "over", "under", "q", "z")}
    zero, products = equations(path, state)
    assert path.W == pytest.approx(before.penalty.allowed(near))
    every = np.concatenate([part[~np.isnan(part)] for part in products.values()])
    assert every == pytest.approx(every.mean(), rel=1e-9)
    assert zero["slopes"] == pytest.approx(0.0, abs=1e-9)
    both = np.isfinite(path.up) & np.isfinite(path.down)
    assert zero["prices"][:, both] == pytest.approx(0.0, abs=1e-9)
    if path.grouped:
        assert path.z[path.penalty.groups] * path.q == pytest.approx(path.W[:, :-1])


@pytest.mark.parametrize("prices", PRICES)
def test_the_path_ends_with_multipliers_within_their_caps_and_a_closed_gap(prices):
    X, y = two_blobs(n=30, m=M, seed=1)
    caps = np.where(y[:, None] > 0, np.eye(K)[np.arange(30) % K], 1.0)
    penalty = FacePenalty.of(M, **PRICES[prices])

    def end(X, enough, near=None):
        path = CentralPath(X, y, caps, penalty, near)
        assert path.follow(enough, 60)
        return path.best

    ends = [end(form(X), 1e-7) for form in (np.array, sp.csr_array)]
    ends.append(end(X, 1e-7, np.random.default_rng(0).normal(size=(K, M + 1))))
    for alpha in ends:
        assert ((alpha >= 0.0) & (alpha <= caps)).all()
        path = CentralPath(X, y, caps, FacePenalty.of(M, **PRICES[prices]))
        path.alpha = alpha
        path.gap()
        again = end(X, 1e-10)
        best = CentralPath(X, y, caps, FacePenalty.of(M, **PRICES[prices]))
        best.alpha = again
        best.gap()
        assert path.bound == pytest.approx(best.bound, rel=1e-6)
    assert ends[0] == pytest.approx(ends[1], abs=1e-5)


@pytest.mark.parametrize("prices", PRICES)
def test_the_number_of_products_is_that_of_all_that_are_not_0(prices):
    path = drawn(PRICES[prices])
    _, products = equations(path, {name: getattr(path, name) for name in ("W", "alpha", "s", "t", "r", "over",
                                                                         "under", "q", "z")})  # fmt: skip
    every = np.concatenate([part[~np.isnan(part)] for part in products.values()])
    assert path.pairs == len(every)
    assert path._products() == pytest.approx(every.sum())


def test_the_weighted_gram_has_the_bias_last_and_leaves_out_weights_of_0(rng):
    X, weights = rng.normal(size=(9, 3)), np.where(np.arange(9) % 3, rng.uniform(0.5, 2.0, 9), 0.0)
    lifted = np.column_stack([X, np.ones(9)])
    for given in (X, sp.csr_array(X)):
        for these in (weights, weights + 1.0):
            found = shrunk_centre._gram(given, these)
            assert found == pytest.approx(lifted.T @ (these[:, None] * lifted))


@pytest.mark.parametrize("seed", range(5))
def test_a_group_reaches_its_cone_after_the_length_that_is_said(seed):
    path = drawn(PRICES["group"], seed)
    way = np.random.default_rng(seed).normal(size=path.q.shape)
    length = path._to_the_cone(way)
    path.q = path.q + length * way
    assert path._room().min() == pytest.approx(0.0, abs=1e-12)
    assert path._to_the_cone(0.0 * way) == np.inf


@pytest.mark.parametrize("prices", PRICES)
def test_a_gap_is_that_of_the_best_bound_and_the_best_faces_that_keep_their_signs(prices):
    path = drawn(PRICES[prices], seed=1)
    signs, best = path.penalty.signs, []
    for turn in range(4):
        path.W = 0.1 * np.random.default_rng(turn).normal(size=path.W.shape)
        if turn % 2:
            path.W[:, :-1] = np.where(signs != 0, signs * np.abs(path.W[:, :-1]), path.W[:, :-1])
        path.alpha *= 0.9
        pulls = path.y * path.alpha
        V = np.column_stack([(path.X.T @ pulls).T, pulls.sum(axis=0)])
        bound = path.alpha.sum() - 0.25 * (path.penalty.shrunk(V) ** 2).sum()
        scores = path.X @ path.W[:, :-1].T + path.W[:, -1]
        paid = (path.caps * np.maximum(0.0, 1.0 - path.y * scores))[path.live].sum()
        value = (path.W**2).sum() + path.penalty.value(path.W) + paid
        kept = (signs * path.W[:, :-1] >= 0.0).all()
        best.append((bound, value if kept else np.inf, path.alpha.copy()))
        path.value = np.inf if turn == 0 else path.value
        path.bound = -np.inf if turn == 0 else path.bound
        gap = path.gap()
        bounds, values = [each[0] for each in best], [each[1] for each in best]
        assert path.bound == pytest.approx(max(bounds))
        assert path.value == pytest.approx(min(values))
        assert (path.best == best[int(np.argmax(bounds))][2]).all()
        scale = max(abs(max(bounds)), abs(min(values)))
        assert gap == (pytest.approx((min(values) - max(bounds)) / scale) if scale < np.inf else np.inf)
    assert np.isfinite(path.value)


def test_it_ends_early_where_it_is_told_to_or_where_the_gap_is_enough():
    X, y = two_blobs(n=14, m=M, seed=0)
    caps, penalty, asked = np.ones((14, K)), FacePenalty.of(M, l1=0.3), []

    def over():
        asked.append(1)
        return len(asked) == 3

    def bound(alpha):
        path = CentralPath(X, y, caps, penalty)
        path.alpha = alpha
        path.gap()
        return path.bound

    def followed(enough, most=60, **ends):
        path = CentralPath(X, y, caps, penalty)
        return path.follow(enough, most, **ends), path.best

    is_enough, first = followed(1e-9, is_over=lambda: True)
    assert not is_enough
    assert (first == 0.5).all()
    is_enough, middle = followed(np.inf)
    assert is_enough
    assert (middle == 0.5).all()
    assert (followed(1e-9, most=1)[1] == 0.5).all()  # and then one step unseen
    third = bound(followed(1e-9, is_over=over)[1])
    assert len(asked) == 3
    is_enough, last = followed(1e-9)
    assert is_enough
    assert bound(first) < third < bound(last)


@pytest.mark.parametrize("prices", PRICES)
def test_a_step_aims_at_the_centre_that_the_step_ahead_allows_and_corrects_what_that_bends(prices):
    """The cube of what is left of the products, between a thousandth and nine tenths (Mehrotra)."""
    path = drawn(PRICES[prices], seed=2)
    before = {name: getattr(path, name).copy() for name in path._way(path._factor(), 0.0, {})}
    _, products = equations(path, before)
    groups = products.pop("z", np.zeros(1))
    mean = (sum(np.nansum(part) for part in products.values()) + groups.sum()) / path.pairs
    ways, way_of = [], path._way

    def way(factor, centre, bent):
        ways.append((centre, bent, way_of(factor, centre, bent)))
        return ways[-1][2]

    path._way = way
    moved = path.step()
    (none, nothing, ahead), (centre, bent, last) = ways
    assert (none, nothing) == (0.0, {})
    left = 1.0 - min(path_room(before, path, ahead), 1.0)
    assert centre == pytest.approx(np.clip(left**3, 1e-3, 0.9) * mean)
    # (s + ds) (α + dα) is s α + s dα + α ds and this, which is to be taken off; caps − α falls as α rises.
    second = {
        "s": ahead["s"] * ahead["alpha"], "t": -ahead["t"] * ahead["alpha"],
        "over": -ahead["over"] * ahead["r"], "under": ahead["under"] * ahead["r"],
    }  # fmt: skip
    assert bent.keys() == second.keys()
    for name, part in second.items():
        assert bent[name] == pytest.approx(-part), name
    length = min(1.0, 0.995 * path_room(before, path, last))
    for name, part in before.items():
        assert getattr(path, name) == pytest.approx(part + length * last[name]), name
    assert moved == (length > 1e-6)


def path_room(at, path, way):
    """How far a way stays within all bounds from the point `at`, as the path itself has it."""
    now = {name: getattr(path, name) for name in at}
    for name, part in at.items():
        setattr(path, name, part)
    found = path._longest(way)
    for name, part in now.items():
        setattr(path, name, part)
    return found
