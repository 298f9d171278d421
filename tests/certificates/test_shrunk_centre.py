"""The interior-point method for the dual of a polytope with a price: its equations, one by one."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.language.toy_data import two_blobs
from polyopt.cpm.penalised_face_dual import CentralPath

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
    path.alpha = np.where(path.has_cap, rng.uniform(0.1, 0.9, caps.shape) * path.caps, 0.0)
    path.W = rng.normal(size=path.W.shape)
    path.s, path.t = rng.uniform(0.5, 2.0, caps.shape), rng.uniform(0.5, 2.0, caps.shape)
    path.r = path.r + rng.uniform(-0.2, 0.2, path.r.shape)
    for name in ("p_up", "p_down"):
        setattr(path, name, getattr(path, name) * rng.uniform(0.5, 2.0, path.r.shape))
    if path.grouped:
        path.q = rng.uniform(-0.25, 0.25, path.q.shape)
        path.z = rng.uniform(0.5, 2.0, path.z.shape)
    path.update_gap()  # V and the slopes at this point
    return path


def equations(path, x):
    """What is to be 0 at a point x, and the products that are to be μ there."""
    pulls = path.y * x["alpha"]
    V = np.column_stack([(path.X.T @ pulls).T, pulls.sum(axis=0)])
    whole = 2.0 * x["W"] - V
    whole[:, :-1][:, path.bounded] += x["r"]
    slope = 1.0 - path.y * (path.X @ x["W"][:, :-1].T + x["W"][:, -1])
    weights = x["W"][:, :-1]
    zero = {
        "faces": whole,
        "slopes": np.where(path.has_cap, slope + x["s"] - x["t"], 0.0),
        "prices": weights[:, path.bounded] - x["p_up"] + x["p_down"],
    }
    finite = {
        "p_up": np.where(np.isinf(path.up), 1.0, path.up),
        "p_down": np.where(np.isinf(path.down), 1.0, path.down),
    }
    products = {
        "s": np.where(path.has_cap, x["s"] * x["alpha"], np.nan),
        "t": np.where(path.has_cap, x["t"] * (path.caps - x["alpha"]), np.nan),
        "p_up": np.where(path.p_up > 0.0, x["p_up"] * (finite["p_up"] - x["r"]), np.nan),
        "p_down": np.where(path.p_down > 0.0, x["p_down"] * (finite["p_down"] + x["r"]), np.nan),
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
    way = path._direction(path._factor(), centre, {})
    assert not any(way[name][~path.has_cap].any() for name in ("alpha", "s", "t"))  # what has no cap stays
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
def test_a_path_near_faces_begins_on_its_centre(prices):
    """A path near some faces begins with like products and only the faces equation open."""
    before = drawn(PRICES[prices], seed=3)
    caps = np.where(before.has_cap, before.caps, 0.0)
    near = np.random.default_rng(4).normal(size=before.W.shape)
    path = CentralPath(before.X, before.y[:, 0], caps, before.penalty, near)
    state = {name: getattr(path, name) for name in ("W", "alpha", "s", "t", "r", "p_up", "p_down", "q", "z")}
    zero, products = equations(path, state)
    assert path.W == pytest.approx(before.penalty.enforce_signs(near))
    every = np.concatenate([part[~np.isnan(part)] for part in products.values()])
    assert every == pytest.approx(every.mean(), rel=1e-9)
    assert zero["slopes"] == pytest.approx(0.0, abs=1e-9)
    both = np.isfinite(path.up) & np.isfinite(path.down)
    assert zero["prices"][:, both] == pytest.approx(0.0, abs=1e-9)
    if path.grouped:
        assert path.z[path.penalty.groups] * path.q == pytest.approx(path.W[:, :-1])


@pytest.mark.parametrize("prices", PRICES)
def test_the_path_closes_the_gap_within_the_caps(prices):
    """The path ends with multipliers within their caps and a closed gap."""
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
        path.update_gap()
        again = end(X, 1e-10)
        best = CentralPath(X, y, caps, FacePenalty.of(M, **PRICES[prices]))
        best.alpha = again
        best.update_gap()
        assert path.bound == pytest.approx(best.bound, rel=1e-6)
    assert ends[0] == pytest.approx(ends[1], abs=1e-5)
