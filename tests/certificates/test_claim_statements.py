"""Programs as files state them: the checker's value of a point is the objective, written out with numpy."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from polyopt.certificates.claims.file import cells_of, feasible_multipliers
from polyopt.check.check import Program, Refused
from polyopt.cpm.certificate import state_choice, state_cpm
from polyopt.cpm.certificate_restricted import state_integers
from polyopt.cpm.claim import add_penalty, state_faces
from polyopt.linalg.kernels import Kernel
from polyopt.margin.claim import state_l0, state_one_norm, state_pattern
from polyopt.polyhedral.logistic_certificate import state_logistic_polytopes, state_plume

N, M, K = 7, 2, 3


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, M)), np.array([1, -1, 1, -1, -1, 1, 1])
    return rng, X, y, rng.normal(size=(K, M + 1)), rng.uniform(0.2, 2.0, N)


def value_of(statement):
    program = Program(
        statement.program, cells_of(statement.X), statement.X.shape[1], [int(s) for s in statement.y]
    )
    point = {"w": [[str(Fraction(v)) for v in w] for w in statement.W]}
    value = program.value(point | {"b": [str(Fraction(v)) for v in statement.b]})
    bound = None
    if statement.multipliers:
        made = feasible_multipliers(program, statement.multipliers)
        told = {"rows": {name: [[str(v) for v in part] for part in m] for name, m in made.items()}}
        gain, price = program.bound(told)
        bound = float(gain - price)
    return float(value), bound


def scores(X, W):
    return np.column_stack([X, np.ones(len(X))]) @ W.T


def test_faces_pay_where_a_sample_answers(data):
    rng, X, y, W, C = data
    size = {"kind": "square", "factor": "1/2"}
    some = np.array([[1, 0, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1], [0, 0, 1], [0, 1, 0], [1, 1, 1]], float)
    for answers in (some, some[[0, 3, 4, 5, 0, 3, 4]], np.ones((N, K))):
        for loss, phi in (
            ("hinge", lambda t: np.maximum(0, 1 + t)),
            ("logistic", lambda t: np.logaddexp(0, t)),
        ):
            for pays in ("sum", "worst"):
                costs = [*C[:-1], Fraction(1, 3)]
                t = np.where(answers > 0, phi(-y[:, None] * scores(X, W)), 0.0)
                paid = t.sum(axis=1) if pays == "sum" else t.max(axis=1)
                alpha = rng.uniform(0.0, 0.2, (N, K)) * answers * C[:, None] / 7
                found = state_faces("t", X, y, W, size, costs, answers, alpha, loss=loss, combine=pays)
                value, bound = value_of(found)
                assert value == pytest.approx((W**2).sum() / 2 + np.array(costs, float) @ paid, rel=1e-12)
                pulls = (y[:, None] * alpha).T @ np.column_stack([X, np.ones(N)])
                gain = alpha.sum()
                if loss == "logistic":
                    shares = alpha if pays == "sum" else alpha.sum(axis=1, keepdims=True)
                    p = np.clip(shares / np.array(costs, float)[:, None], 1e-300, 1.0)
                    gain = -(np.array(costs, float)[:, None] * (p * np.log(p) + (1 - p) * np.log1p(-p))).sum()
                assert bound == pytest.approx(gain - (pulls**2).sum() / 2, rel=1e-9)


def size_with(penalty, W, size):
    """What the checker says that faces cost, where no sample pays."""
    told = state_faces(
        "t", np.zeros((2, M)), np.array([1, -1]), W, size, [0, 0], np.ones((2, K)), np.zeros((2, K))
    )
    return value_of(replace(told, multipliers={}))[0]


def test_prices_of_single_weights_signs_and_groups(data):
    W = np.abs(data[3]) * [1.0, -1.0, 1.0]
    size = {"kind": "square", "factor": 1, "low": -2}
    assert add_penalty(size, None, K) is size
    for penalty in (
        FacePenalty.of(M, l1=0.25), FacePenalty.of(M, signs=[1, -1]), FacePenalty.of(M, group=0.5),
        FacePenalty.of(M, l1=0.25, signs=[0, -1], group=0.5, groups=[0, 0]),
    ):  # fmt: skip
        made = add_penalty({"kind": "square", "factor": 1}, penalty, K)
        assert size_with(penalty, W, made) == pytest.approx((W**2).sum() + penalty.value(W), rel=1e-12)
        for j in range(M):
            V = W.copy()
            V[1, j] *= -1.0
            if penalty.signs[j]:
                with pytest.raises(Refused, match="outside its box"):
                    size_with(penalty, V, made)
    made = add_penalty(size, FacePenalty.of(M, signs=[0, -1]), K)
    assert (made["low"], made["high"]) == ([[-2, -2, -2]] * K, [["inf", 0, "inf"]] * K)
    made = add_penalty(size, FacePenalty.of(M, signs=[1, 0]), K)
    assert (made["low"], made["high"]) == ([[0, -2, -2]] * K, [["inf", "inf", "inf"]] * K)
    assert size == {"kind": "square", "factor": 1, "low": -2}


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("margin", ["total", "worst"])
def test_a_convex_polytope_machine_and_its_whole_numbers(data, loss, margin):
    rng, X, y, W, C = data
    Z = np.where(y[:, None] > 0, np.eye(K)[rng.integers(K, size=N)], 1.0)
    geometry = SimpleNamespace(X=np.column_stack([X, np.ones(N)]))
    point = SimpleNamespace(geometry=geometry, y=y, W=W, C=C, Z=Z, penalty=FacePenalty.of(M, l1=0.5))

    def objective(W):
        hinges = Z * np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))
        squares = (W**2).sum(axis=1)
        size = squares.sum() if margin == "total" else squares.max()
        paid = hinges.sum(axis=1) if loss == "sum" else hinges.max(axis=1)
        return size + 0.5 * np.abs(W[:, :-1]).sum() + C @ paid

    found = state_cpm(point, np.zeros((N, K)), loss, margin)
    assert found.kind == "bounds"
    assert value_of(replace(found, multipliers={}))[0] == pytest.approx(objective(W), rel=1e-12)
    if (loss, margin) == ("sum", "total"):
        p, scale, theta = rng.integers(-5, 6, (K, M)), np.array([0.5, 0.1, 2.0]), rng.normal(size=K)
        found = state_integers(point, np.zeros((N, K)), p, scale, theta)
        V = scale[:, None] * np.column_stack([p, -theta])
        assert value_of(replace(found, multipliers={}))[0] == pytest.approx(objective(V), rel=1e-12)


def test_the_choice_of_faces_pays_the_least(data):
    _, X, y, W, C = data
    found = state_choice(X, y, W, C, {"some": "tree"}, 0.5)
    t = np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))
    value = (W**2).sum() + C @ np.where(y > 0, t.min(axis=1), t.sum(axis=1))
    assert value_of(found)[0] == pytest.approx(value, rel=1e-12)
    assert (found.tree, found.bound, found.multipliers) == ({"some": "tree"}, 0.5, {})


def slope_of(objective, W):
    step, found = 1e-6, np.zeros_like(W)
    for at in np.ndindex(W.shape):
        for side in (1, -1):
            V = W.copy()
            V[at] += side * step
            found[at] += side * objective(V) / (2 * step)
    return found


@pytest.mark.parametrize("gamma", [0.0, 1.5])
def test_plumes_step_and_its_multipliers(data, gamma):
    """At the multipliers of a point the bound is what the tangent and the ridge say: less |slope|²/2ρ."""
    rng, X, y, W, C = data
    R = rng.dirichlet(np.ones(K), N)
    rho = 0.7

    def objective(W):
        s = scores(X, W)
        gate = np.log(np.exp(-gamma * s).sum(axis=1))
        each = R * (np.log(R) + np.logaddexp(0.0, -y[:, None] * s) + gamma * s)
        return rho / 2 * (W**2).sum() + C @ (each.sum(axis=1) + gate)

    value, bound = value_of(state_plume(X, y, W, R, gamma, rho, C))
    assert value == pytest.approx(objective(W), rel=1e-12)
    assert bound == pytest.approx(value - (slope_of(objective, W) ** 2).sum() / (2 * rho), rel=1e-5)


@pytest.mark.parametrize("owners", [Owners(1, 2), Owners(0, 2)], ids=str)
def test_logistic_polytopes_for_their_assignment(data, owners):
    rng, X, y, W, C = data
    at_rest = owners.minus == 0
    free = np.ones((K, M + 1), bool)
    free[0] = not at_rest
    W = W * free
    W[2] = np.abs(W[2])
    ways = np.zeros((K, M))
    ways[2, 0] = 1.0
    own = np.where(y < 0, 0, rng.integers(1, K, N))
    rho, eta, penalty = 0.6, 0.1, FacePenalty.of(M, l1=0.5)
    found = state_logistic_polytopes(
        X, y, W, owners, free, ways, (rho, eta, penalty), C, own, np.zeros((N, K))
    )
    s = scores(X, W)
    others = np.where(y[:, None] > 0, s[:, :1], s[:, 1:]).max(axis=1)
    loss = C @ np.logaddexp(0.0, others - s[np.arange(N), own])
    cost = rho / 2 * (W[:, :-1] ** 2).sum() + eta / 2 * (W[:, -1] ** 2).sum() + 0.5 * np.abs(W[:, :-1]).sum()
    assert value_of(replace(found, multipliers={}))[0] == pytest.approx(loss + cost, rel=1e-12)
    assert found.multipliers["margin"].shape == (K, N)
    for at in [(2, 0)] + [(0, M), (0, 0)] * at_rest:
        V = W.copy()
        V[at] = -0.5 if at == (2, 0) else 0.5
        with pytest.raises(Refused, match="outside its box"):
            value_of(replace(found, W=V, multipliers={}))
    V = W.copy()
    V[2, 1:] = -0.5  # the others are free
    value_of(replace(found, W=V, multipliers={}))


def test_expansions_in_kernels(data):
    rng, X, y, _, C = data
    kernel = Kernel("poly", 0.5, 2, 1.0)
    G = (0.5 * X @ X.T + 1.0) ** 2
    alpha, b, u = rng.uniform(0.0, 0.2, N), 0.3, rng.uniform(0.0, 0.2, N) * C
    alpha[2:4] = 0.0
    hinges = np.maximum(0.0, 1.0 - y * (G @ (y * alpha) + b))
    u[y > 0] *= u[y < 0].sum() / u[y > 0].sum()
    u *= 0.1
    pulls = y * (G @ (y * u))
    found = state_one_norm(X, y, C, kernel, alpha, b, u)
    value, bound = value_of(found)
    assert value == pytest.approx(alpha.sum() + C @ hinges, rel=1e-12)
    assert bound == pytest.approx(u.sum() - C @ np.maximum(0.0, pulls - 1.0), rel=1e-6)
    with pytest.raises(Refused, match="outside its box"):
        value_of(replace(found, W=[2.0 * y * C], multipliers={}))
    # The pattern's machine may use its own centres alone; their number is paid for whatever their size.
    price = 2.5
    pattern = state_pattern(X, y, price, C, kernel, alpha, b, u / price)
    value, bound = value_of(pattern)
    assert value == pytest.approx((alpha > 0).sum() + price * C @ hinges, rel=1e-12)
    assert bound == pytest.approx(
        (alpha > 0).sum() + u.sum() - price * np.maximum(0.0, pulls)[alpha > 0].sum(), rel=1e-6
    )
    with pytest.raises(Refused, match="outside its box"):
        value_of(replace(pattern, W=[y * (alpha + 0.1 * (alpha == 0))], multipliers={}))
    every = state_l0(X, y, price, C, kernel, alpha, b, {"some": "tree"}, 1.5)
    assert value_of(every)[0] == pytest.approx((alpha > 0).sum() + price * C @ hinges, rel=1e-12)
    value_of(replace(every, W=[y * price]))
    for a in (-0.1, price + 0.1):
        with pytest.raises(Refused, match="outside its box"):
            value_of(replace(every, W=[y * a]))
    assert (every.tree, every.bound) == ({"some": "tree"}, 1.5)
