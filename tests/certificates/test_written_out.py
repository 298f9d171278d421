"""Certificates at drawn points against their programs, written out and computed to 60 digits by mpmath.

A kind of program is a function: it draws a point and multipliers of no merit, certifies them, and returns the
objective, the dual value if it has a closed form, and the conditions of optimality.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import mpmath
import numpy as np
import pytest

from formulations.cpm import fixed_assignment, natural_assignment
from formulations.face_penalty import FacePenalty
from formulations.l0_data import as_l0_data
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.certificates.certificate import Certificate
from polyopt.certificates.points import checked_faces
from polyopt.cpm.certificate import certify_cpm
from polyopt.margin.certify import certify_rmm, certify_sigma_svm, certify_svm
from polyopt.polyhedral.logistic_certificate import (
    certify_logistic_polytopes,
    certify_plume,
    certify_spla1,
)
from polyopt.polyhedral.lp_certificate import certify_pc_slp, certify_polyceptron
from polyopt.sparse.certificate import certify_l0, certify_one_norm, score_bound

N, M, K = 14, 2, 3
CHEAP = {"cheap": 0.02, "cheap offset": 1e-10, "cheap scales": 1e-12}
number = np.vectorize(mpmath.mpf, otypes=[object])
exp, log, log1p, root = (
    np.vectorize(f, otypes=[object]) for f in (mpmath.exp, mpmath.log, mpmath.log1p, mpmath.sqrt)
)
ZERO, STEP = mpmath.mpf(0), mpmath.mpf(2) ** -60


@pytest.fixture(autouse=True)
def digits():
    """Sixty digits, about four times those of a double."""
    with mpmath.workdps(60):
        yield


@dataclass
class Drawn:
    """A certificate, the objective, the point, the dual value of the multipliers, and the conditions."""

    certificate: Certificate
    value: Callable
    point: tuple
    bound: object = None
    conditions: dict = field(default_factory=dict)


def drawn_data(scales, seed):
    """Data that are ordinary, far from the origin, of mixed scales, with repeats, or of mixed costs.

    Their multipliers pull too hard for a positive bound, and those of cheap data do not.
    """
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=N, m=M, seed=seed)
    C = rng.uniform(0.5, 2.0, N)
    if "offset" in scales:
        X += 1e4
    if "scales" in scales:
        X *= [1e-5, 1e5]
    if scales == "grid":
        X = np.round(X)
    if scales == "costs":
        C = 10.0 ** rng.uniform(-8, 8, N)
    return rng, X, y, CHEAP.get(scales, 1.0) * C


def lift(X):
    return number(np.column_stack([X, np.ones(len(X))]))


def positive(t):
    return np.maximum(t, ZERO)


def softplus(t):
    return log1p(exp(t))


def sigmoid(t):
    return 1 / (1 + exp(-t))


def worst(violation, scale=None):
    """The value, relative value and place of a residual."""
    at = int(np.argmax(violation))
    value = max(np.ravel(violation)[at], ZERO)
    return value, scale and value / scale, at if value > 0 else None


def balanced(u, y, caps):
    """Multipliers within their caps, and the heavier class made as light as the other."""
    clipped = np.minimum(positive(number(u)), number(caps))
    plus, minus = clipped[y > 0].sum(), clipped[y < 0].sum()
    light = min(plus, minus)
    return clipped * np.where(y > 0, light / plus if plus else ZERO, light / minus if minus else ZERO)


def slope_of(value, W):
    """The slope of an objective at faces W, by differences in 60 digits."""
    found = number(np.zeros(W.shape))
    for at in np.ndindex(W.shape):
        for side in (1, -1):
            moved = W.copy()
            moved[at] += side * STEP
            found[at] += side * value(moved) / (2 * STEP)
    return found


# -- kinds of programs -----------------------------------------------------------------------------


def svm(rng, X, y, C):
    w, b, alpha = 0.1 * rng.normal(size=M), float(rng.normal()), C * rng.uniform(-0.2, 1.2, N)

    def value(w, b):
        return w @ w / 2 + number(C) @ positive(1 - y * (number(X) @ w + b))

    a = balanced(alpha, y, C)
    pull = (y * a) @ number(X)
    return Drawn(certify_svm(X, y, C, w=w, b=b, alpha=alpha), value, (w, b), a.sum() - pull @ pull / 2)


def rmm(rng, X, y, C):
    w, b, B = rng.normal(size=M), float(rng.normal()), 1.3
    size = 1.01 * np.abs(X @ w + b).max() / B  # within the bounds
    w, b = w / size, b / size
    given = {name: C * np.abs(rng.normal(size=N)) for name in ("alpha", "lam", "lam_star")}

    def value(w, b):
        return w @ w / 2 + number(C) @ positive(1 - y * (number(X) @ w + b))

    return Drawn(certify_rmm(X, y, C, B, w=w, b=b, **given), value, (w, b))


def sigma(rng, X, y, C, D):
    w, b, alpha = 0.1 * rng.normal(size=M), float(rng.normal()), C * rng.uniform(0.0, 1.0, N)
    s = rng.uniform(0.5, 2.0, N)
    share = number(s) / number(s).sum()
    rows = number(X) - share @ number(X)

    def value(w, b):
        f = rows @ w
        return (1 - number(D)) * (w @ w) / 2 + D * (share @ f**2) / 2 + number(C) @ positive(1 - y * (f + b))

    return Drawn(certify_sigma_svm(X, y, C, D, weights=s, w=w, b=b, alpha=alpha), value, (w, b))


def cpm(rng, X, y, C, loss, margin, size=1.0):
    """A negative pays for each face or, for loss "max", once; the squares add up or the longest counts."""
    z, W = np.where(y > 0, rng.integers(0, K, N), -1), rng.normal(size=(K, M + 1))
    alpha = size * C[:, None] * np.where(rng.random((N, K)) < 0.5, rng.normal(size=(N, K)), 0.0)
    lifted, Z = lift(X), (y < 0)[:, None] | (z[:, None] == np.arange(K))
    shared = (y < 0) & (loss == "max")
    costs, a = number(C), number(alpha)

    def hinges(W):
        return positive(1 - y[:, None] * (lifted @ W.T))

    def value(W):
        squares, hinge = (W**2).sum(axis=1), hinges(W)
        paid = np.where(shared, hinge.max(axis=1), (hinge * Z).sum(axis=1))
        return (squares.sum() if margin == "total" else squares.max()) + costs @ paid

    held = np.minimum(positive(a), costs[:, None] * Z)
    over = held.sum(axis=1)
    shrunk = [
        cost / total if total > cost else mpmath.mpf(1) for cost, total in zip(costs, over, strict=True)
    ]
    held = held * np.where(shared, shrunk, mpmath.mpf(1))[:, None]
    parts = root((((held * y[:, None]).T @ lifted) ** 2).sum(axis=1))
    square = (parts**2).sum() if margin == "total" else parts.sum() ** 2
    given = {"W": W, "alpha": alpha, "assignment": z, "loss": loss, "margin": margin}
    found = Drawn(certify_cpm(X, y, C, **given), value, (W,), held.sum() - square / 4)

    w, v, hinge = number(W), (a * y[:, None]).T @ lifted, hinges(number(W))
    squares, lengths = (w**2).sum(axis=1), root((v**2).sum(axis=1))
    theta = np.ones(K) if margin == "total" else lengths / (lengths.sum() or 1)
    xi = np.where(shared[:, None], hinge.max(axis=1, keepdims=True), hinge)
    surplus, largest = y[:, None] * (lifted @ w.T) - 1 + xi, np.abs(a).max() or costs.max()
    weight = max(np.abs(2 * theta[:, None] * w).max(), np.abs(v).max()) or 1
    gain = np.where(y > 0, (hinge * Z).sum(axis=1) - hinge.min(axis=1), ZERO)
    beta = np.where(shared[:, None], (costs - a.sum(axis=1))[:, None], costs[:, None] * Z - a)
    found.conditions = {
        ("stationarity", "assignment"): worst(gain, 1),
        ("sign", "slack"): worst(-beta.min(axis=1), largest),
        ("complementarity", "slack"): worst(np.abs(beta * xi).max(axis=1), largest),
    }
    for k in range(K):
        found.conditions |= {
            ("sign", f"margin(face {k})"): worst(-a[:, k], largest),
            ("complementarity", f"margin(face {k})"): worst(np.abs(a[:, k] * surplus[:, k]), largest),
            ("stationarity", f"w(face {k})"): worst(np.abs(2 * theta[k] * w[k] - v[k]), weight),
        }
    if margin == "worst":
        norms = worst(theta * (squares.max() - squares), squares.max())
        found.conditions["complementarity", "norm"] = norms
    return found


def priced_cpm(rng, X, y, C, l1=0.0, group=0.0, signs=(0, 0)):
    """Weights have a price, alone and by feature, and signs: weights of the wrong sign are dropped."""
    z, W = np.where(y > 0, rng.integers(0, K, N), -1), rng.normal(size=(K, M + 1))
    alpha = C[:, None] * rng.uniform(-0.2, 1.2, (N, K))
    members = (y < 0)[:, None] | (z[:, None] == np.arange(K))
    lifted, costs, sided = lift(X), number(C), np.array(signs)

    def cost_of(ways):
        return l1 * np.abs(ways).sum() + group * root((ways**2).sum(axis=0)).sum()

    def value(W):
        W = np.where(np.append(sided, 0) * W < 0, ZERO, W)
        paid = positive(1 - y[:, None] * (lifted @ W.T)) * members
        return (W**2).sum() + cost_of(W[:, :-1]) + costs @ paid.sum(axis=1)

    held = np.minimum(positive(number(alpha)), costs[:, None] * members)
    v = (held * y[:, None]).T @ lifted
    cut = positive(np.abs(v[:, :-1]) - number(l1)) * (np.sign(v[:, :-1]) * sided >= 0)
    left = positive(root((cut**2).sum(axis=0)) - number(group))
    bound = held.sum() - ((left**2).sum() + (v[:, -1] ** 2).sum()) / 4
    penalty = FacePenalty.of(M, l1=l1, group=group, signs=list(signs))
    certificate = certify_cpm(X, y, C, W=W, alpha=alpha, assignment=z, penalty=penalty)
    broken = worst(positive(-number(W * np.append(sided, 0))).ravel(), np.abs(number(W)).max())
    return Drawn(certificate, value, (W,), bound, {("primal", "sign"): broken} if any(signs) else {})


def boxed(rng, X, y, C, name, R):
    """Faces within a box of radius R: an outside sample pays on its face alone."""
    W, z = rng.normal(size=(K, M + 1)), np.where(y < 0, rng.integers(0, K, N), -1)
    u = 0.5 * C[:, None] * np.where(rng.random((N, K)) < 0.5, rng.normal(size=(N, K)), 0.0)
    lifted, costs, own = lift(X), number(C), (z[:, None] == np.arange(K)) & (y < 0)[:, None]
    members = (y > 0)[:, None] | own

    def hinges(W):
        return positive(1 - y[:, None] * (lifted @ np.clip(W, -R, R).T))

    w = number(W)
    inner, hinge = np.clip(w, -R, R), hinges(w)
    if name == "polyceptron":
        certificate = certify_polyceptron(X, y, W, C=C, u=u, assignment=z, radius=R)
        mult, xi, caps = number(u), hinge, costs[:, None] * members
        unused = caps - mult

        def value(W):
            return costs @ (hinges(W) * members).sum(axis=1)
    else:
        q = 0.05 * C * rng.normal(size=N)
        certificate = certify_pc_slp(X, y, W, C=C, u=0.05 * u, q=q, assignment=z, radius=R)
        mult = np.where((y > 0)[:, None], number(0.05 * u), own * number(q)[:, None])
        shares = costs / np.where(y > 0, costs[y > 0].sum(), costs[y < 0].sum())

        def value(W):
            return shares @ (hinges(W) * members).max(axis=1)

        xi = (hinge * members).max(axis=1)[:, None]  # a slack is one for all faces of a sample
        unused = shares[:, None] - mult.sum(axis=1)[:, None]
    scale = max(value(w), mpmath.mpf(certificate.dual_value))
    side, off = np.where(np.abs(W) >= R, np.sign(W), 0.0), (y[:, None] * mult).T @ lifted
    loose = np.where(side == 0, np.abs(off), positive(-side * off))
    first = hinge[np.arange(N), np.maximum(z, 0)] - hinge.min(axis=1)
    surplus = y[:, None] * (lifted @ inner.T) - 1 + xi
    lost = np.where(side == 0, ZERO, np.abs(off) * (R - np.abs(inner)))
    conditions = {
        ("primal", "box"): worst((np.abs(w) - R).max(axis=1), R),
        ("stationarity", "assignment"): worst(np.where(y < 0, first, ZERO), 1),
        ("sign", "margin"): worst((-mult).max(axis=1), np.abs(mult).max()),
        ("sign", "slack"): worst((-unused).max(axis=1), np.abs(mult).max()),
        ("stationarity", "balance"): worst(loose.max(axis=1), (np.abs(mult).T @ np.abs(lifted)).max()),
        ("complementarity", "margin"): worst(np.abs(mult * surplus).max(axis=1), scale),
        ("complementarity", "slack"): worst(np.abs(unused * xi).max(axis=1), scale),
        ("complementarity", "box"): worst(lost.max(axis=1), scale),
    }
    assert (certificate.claim is Claim.NONE) == (np.abs(W).max() > R)
    return Drawn(certificate, value, (W,), None, conditions)


def expansion(rng, X, y, C, name, size=1.0, is_global=True):
    """Expansions in kernels: the sum of the coefficients is paid for, or their number."""
    A = np.tanh(X @ X.T / (1.0 + np.abs(X @ X.T).max()))
    b, u, price = 0.3, size * C * rng.normal(size=N), 1.7
    count, centres = name == "l0", rng.choice([-1.0, 1.0], N) if name == "l0" else y
    most = np.full(N, price) if count else C
    alpha = np.where(rng.random(N) < 0.5, most * (0.5 + rng.normal(size=N)), 0.0)
    costs, kernel, a, mult = number(C), number(A), number(alpha), number(u)
    inside = np.minimum(positive(a), most)

    def value(alpha, b):
        held = np.minimum(positive(alpha), most)
        xi = positive(1 - y * (kernel @ (centres * held) + b))
        return (held > 0).sum() + price * costs @ xi if count else held.sum() + costs @ xi

    pulls = centres * (kernel.T @ (y * mult))
    true = balanced(u, y, C)
    rates = centres * (kernel.T @ (y * true))
    if count:
        given = {"alpha": alpha, "b": b, "weights": C, "centres": centres, "u": u}
        certificate = certify_l0(A, y, price, **given, v=price * u if is_global else None)
        cap, pattern, objective = number(price), inside > 0, value(a, b)
        own = pattern.sum() + cap * positive(true.sum() - cap * positive(rates)[pattern].sum())
        bound = cap * true.sum() - positive(cap * cap * rates - 1).sum() if is_global else own
        unit, largest = price, C.max()
        scale, reduced = value(a, b) / price, np.where(inside > 0, pulls, ZERO)
    else:
        certificate = certify_one_norm(A, y, C, alpha=alpha, b=b, u=u)
        bound = true.sum() - costs @ positive(rates - 1)
        unit, largest = np.abs(a).max(), np.abs(mult).max() or costs.max()
        scale, reduced = max(value(a, b), mpmath.mpf(certificate.dual_value)), pulls - 1
    f, total = kernel @ (centres * inside) + b, abs(y @ mult)
    xi = positive(1 - y * f)
    conditions = {
        ("primal", "sign"): worst(-a, unit),
        ("primal", "cap"): worst(a - most, unit),
        ("sign", "margin"): worst(-mult, largest),
        ("sign", "slack"): worst(mult - costs, largest),
        ("stationarity", "b"): (total, total / (np.abs(mult).sum() or 1), None),
        ("complementarity", "margin"): worst(np.abs(mult * (y * f - 1 + xi)), scale),
        ("complementarity", "slack"): worst(np.abs((costs - mult) * xi), scale),
        ("complementarity", "sign"): worst(inside * positive(-reduced), scale),
        ("complementarity", "cap"): worst((most - inside) * positive(reduced), scale),
    }
    if count:
        gap = objective - own
        conditions["stationarity", "pattern"] = (gap, gap / objective, None)
    return Drawn(certificate, value, (alpha, b), bound, conditions)


def spla1(rng, X, y, C, positives):
    ridge, z, W = 0.3, rng.integers(0, K, N), 0.1 * rng.normal(size=(K, M + 1))
    lifted, costs, w = lift(X), number(C), number(W)
    members = (z[:, None] == np.arange(K)) | ((y > 0)[:, None] & (positives == "all"))

    def value(W):
        paid = members * softplus(-y[:, None] * (lifted @ W.T))
        return costs @ paid.sum(axis=1) + number(ridge) / 2 * (W**2).sum()

    s = lifted @ w.T
    pulls = costs[:, None] * members * sigmoid(-y[:, None] * s)
    gradient = slope_of(value, w)
    single = (y < 0) | (positives == "cell")
    moves = np.where(single, s[np.arange(N), z] - s.min(axis=1), ZERO)
    # For strong convexity, the optimum is lower by the square of the slope over twice the ridge at most.
    bound = value(w) - (gradient**2).sum() / (2 * number(ridge))
    conditions = {
        ("stationarity", "W"): worst(np.abs(gradient).max(axis=1), (pulls.T @ np.abs(lifted)).max()),
        ("stationarity", "cells"): worst(moves, np.abs(s).max()),
    }
    given = {"ridge": ridge, "C": C, "positives": positives, "assignment": z}
    return Drawn(certify_spla1(X, y, W, **given), value, (W,), bound, conditions)


def plume(rng, X, y, C, gamma=0.7, ridge=0.2):
    """At responsibilities of one's own: the slope is that of the expected loss."""
    R, W = rng.dirichlet(np.ones(K), N), 0.1 * rng.normal(size=(K, M + 1))
    lifted, costs, w = lift(X), number(C), number(W)
    shares = number(R) / number(R).sum(axis=1, keepdims=True)

    def gates(s):
        powers = exp(-gamma * (s - s.min(axis=1, keepdims=True)))
        return powers / powers.sum(axis=1, keepdims=True)

    def value(W):
        s = lifted @ W.T
        terms = shares * (softplus(-y[:, None] * s) - log(gates(s)) + log(shares))
        return costs @ terms.sum(axis=1) + number(ridge) / 2 * (W**2).sum()

    s = lifted @ w.T
    own = gates(s) * sigmoid(y[:, None] * s)
    own = own / own.sum(axis=1, keepdims=True)
    gradient = slope_of(value, w)
    bound = value(w) - (gradient**2).sum() / (2 * number(ridge))
    conditions = {("stationarity", "responsibilities"): worst(np.abs(shares - own).max(axis=1), 1)}
    for k in range(K):
        conditions["stationarity", f"w(face {k})"] = worst(np.abs(gradient[k]))
    given = {"gamma": gamma, "ridge": ridge, "C": C, "responsibilities": R}
    return Drawn(certify_plume(X, y, W, **given), value, (W,), bound, conditions)


def logistic(rng, X, y, C, held=False):
    """One face of class -1 and two of +1, with all prices; with `held`, one weight may not be used."""
    rho, eta, l1, group = 7.0, 2.0, 0.003, 0.0025
    classes, lifted, costs = np.array([-1.0, 1.0, 1.0]), lift(X), number(C)
    W, free = 0.3 * rng.normal(size=(K, M + 1)), np.ones((K, M), bool)
    free[1, 1] = not held
    W[:, :-1] *= free
    others = classes != y[:, None]
    own = np.where(others, -np.inf, np.column_stack([X, np.ones(N)]) @ W.T).argmax(axis=1)

    def value(W):
        s, ways = lifted @ W.T, W[:, :-1]
        xi = np.where(others, s, -mpmath.inf).max(axis=1) - s[np.arange(N), own]
        size = number(rho) / 2 * (ways**2).sum() + number(eta) / 2 * (W[:, -1] ** 2).sum()
        size += number(l1) * np.abs(ways).sum() + number(group) * root((ways**2).sum(axis=0)).sum()
        return costs @ softplus(xi) + size

    alpha = rng.random((N, K)) * others
    alpha *= (C * rng.uniform(0.1, 0.9, N) / alpha.sum(axis=1))[:, None]
    total = number(alpha).sum(axis=1)
    p, net = total / costs, np.eye(K)[own] * total[:, None] - number(alpha)
    pulls = net.T @ lifted
    cut = positive(np.abs(pulls[:, :-1]) - l1) * free
    lengths = root((cut**2).sum(axis=0))
    left = cut * positive(1 - group / np.maximum(lengths, mpmath.mpf(1e-30)))
    bound = -costs @ (p * log(p) + (1 - p) * log1p(-p)) - (left**2).sum() / (2 * number(rho))
    bound -= (pulls[:, -1] ** 2).sum() / (2 * number(eta))
    # The distance of the faces from those that the multipliers imply, over the largest sum of pulls.
    implied = np.column_stack([np.sign(pulls[:, :-1]) * left / rho, pulls[:, -1] / eta])
    off = np.abs((number(W) - implied) * np.array([rho] * M + [eta])).max(axis=1)
    conditions = {("stationarity", "W"): worst(off, (np.abs(lifted).T @ np.abs(net)).max())}
    given = {
        "ridge": rho,
        "bias_ridge": eta,
        "l1": l1,
        "group": group,
        "C": C,
        "support": free if held else None,
    }
    certificate = certify_logistic_polytopes(X, y, W, n_faces=(1, 2), alpha=alpha, assignment=own, **given)
    return Drawn(certificate, value, (W,), bound, conditions)


KINDS = {
    "svm": svm,
    "rmm": rmm,
    "sigma": partial(sigma, D=0.6),
    "sigma D=1": partial(sigma, D=1.0),
    "cpm": partial(cpm, loss="sum", margin="total"),
    "cpm max": partial(cpm, loss="max", margin="total"),
    "cpm worst": partial(cpm, loss="sum", margin="worst"),
    "cpm max worst": partial(cpm, loss="max", margin="worst"),
    "cpm l1": partial(priced_cpm, l1=0.1),
    "cpm group": partial(priced_cpm, group=0.15),
    "cpm signs": partial(priced_cpm, signs=(1, -1)),
    "cpm all prices": partial(priced_cpm, l1=0.05, group=0.1, signs=(0, 1)),
    "polyceptron": partial(boxed, name="polyceptron", R=5.0),
    "pc-slp": partial(boxed, name="pc-slp", R=5.0),
    "one-norm": partial(expansion, name="one-norm"),
    "l0": partial(expansion, name="l0"),
    "l0 of its pattern": partial(expansion, name="l0", is_global=False),
    "spla1 cell": partial(spla1, positives="cell"),
    "spla1 all": partial(spla1, positives="all"),
    "plume": plume,
    "logistic": logistic,
    "logistic held": partial(logistic, held=True),
}
SCALES = ["plain", "offset", "scales", "grid", "costs", *CHEAP]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scales", SCALES)
def test_values_enclose_exact_ones(kind, scales):
    """The value is above the objective, the bound below the dual value and the objective of other points."""
    drawn = KINDS[kind](*drawn_data(scales, seed=1))
    certificate, point = drawn.certificate, [number(part) for part in drawn.point]
    value = drawn.value(*point)
    assert value <= certificate.primal_value <= value * (1 + mpmath.mpf(1e-6))
    for factor in (0.1, 1) if kind == "l0 of its pattern" else (0, 0.1, 1):
        assert certificate.dual_value <= drawn.value(*(factor * part for part in point))
    if drawn.bound is not None:
        assert certificate.dual_value <= max(drawn.bound, ZERO)
        if scales in CHEAP:
            assert certificate.dual_value >= drawn.bound * (1 - mpmath.mpf(1e-6))
            assert drawn.bound > 0 or scales != "cheap"


@pytest.mark.parametrize("scales", SCALES)
def test_score_bound_is_below_exact_one(scales):
    """The bound of multipliers on every score of the L0 machine is below the exact one, and near it."""
    rng, X, y, C = drawn_data(scales, seed=1)
    A, u, price = np.tanh(X @ X.T / (1.0 + np.abs(X @ X.T).max())), C * rng.uniform(-0.1, 0.6, N), 1.7
    true, cap = balanced(u, y, C), number(price)
    rates = y * (number(A).T @ (y * true))
    exact = cap * true.sum() - positive(cap * cap * rates - 1).sum()
    found = score_bound(as_l0_data(A, y, price, C), u)
    assert exact - 1e-9 * cap * true.sum() <= found <= exact


CONDITIONS = {
    **{name: kind for name, kind in KINDS.items() if name not in ("svm", "rmm", "sigma", "sigma D=1")},
    "cpm with small multipliers": partial(cpm, loss="max", margin="worst", size=0.05),
    "cpm without multipliers": partial(cpm, loss="max", margin="total", size=0.0),
    "cpm worst without multipliers": partial(cpm, loss="sum", margin="worst", size=0.0),
    "polyceptron beyond its box": partial(boxed, name="polyceptron", R=0.8),
    "pc-slp beyond its box": partial(boxed, name="pc-slp", R=0.8),
    "one-norm with small multipliers": partial(expansion, name="one-norm", size=1e-3),
    "one-norm without multipliers": partial(expansion, name="one-norm", size=0.0),
    "l0 with small multipliers": partial(expansion, name="l0", size=1e-3),
    "l0 without multipliers": partial(expansion, name="l0", size=0.0),
}


@pytest.mark.parametrize("kind", CONDITIONS)
@pytest.mark.parametrize("seed", [1, 2])
def test_residuals_are_conditions_written_out(kind, seed):
    """Each residual has the value, the scale and the worst sample of its condition."""
    drawn = CONDITIONS[kind](*drawn_data("plain", seed))
    found = {(r.condition, r.row): r for r in drawn.certificate.residuals}
    if not kind.startswith(("logistic", "cpm l1", "cpm group", "cpm signs", "cpm all")):
        assert set(found) == set(drawn.conditions)
    for key, (value, relative, at) in drawn.conditions.items():
        assert found[key].value == pytest.approx(float(value), rel=1e-9, abs=1e-13), key
        assert found[key].worst == at, key
        if relative is not None:
            assert found[key].relative == pytest.approx(float(relative), rel=1e-9, abs=1e-13), key


def test_other_assignment_tells_its_gap():
    """A sample on another face than its best one is told by how much that face's score is lower."""
    rng, X, y, C = drawn_data("plain", seed=1)
    W = 0.3 * rng.normal(size=(K, M + 1))
    s = np.column_stack([X, np.ones(N)]) @ W.T
    least = np.where(y < 0, 0, 1 + s[:, 1:].argmin(axis=1))
    certificate = certify_logistic_polytopes(
        X, y, W, n_faces=(1, 2), ridge=0.7, bias_ridge=0.2, C=C, assignment=least
    )
    found = {r.row: r for r in certificate.residuals}["assignment"]
    miss = np.where(y < 0, 0.0, np.abs(s[:, 1] - s[:, 2]))
    assert (found.value, found.worst) == (pytest.approx(miss.max()), miss.argmax())
    assert found.relative == pytest.approx(miss.max() / np.abs(s).max())


@pytest.mark.parametrize("place", [(0, 1), (1, 0), (2, 1)], ids=str)
def test_tiny_weight_of_wrong_sign_is_refused(place):
    """No score of class +1 may fall with a feature, and each of class -1 does."""
    rng, X, y, C = drawn_data("plain", seed=1)
    W = np.abs(rng.normal(size=(K, M + 1))) * np.array([-1.0, 1.0, 1.0])[:, None]
    given = {"n_faces": (1, 2), "ridge": 0.7, "C": C, "signs": [1, 1]}
    assert certify_logistic_polytopes(X, y, W, **given).primal_value > 0
    W[place] *= -1e-9
    with pytest.raises(ValueError, match="keep the signs"):
        certify_logistic_polytopes(X, y, W, **given)


@pytest.mark.parametrize("margin", ["total", "worst"])
def test_cancelling_multipliers_have_a_scale(margin):
    """A hundred millionth of the terms that pull on a weight, 2 (½ + ½) here, is the least scale."""
    W = [[1e-12, 0.0]]
    found = certify_cpm([[2.0], [2.0]], [1, -1], W=W, alpha=[[0.5], [0.5]], loss="max", margin=margin)
    off = next(r for r in found.residuals if r.row == "w(face 0)")
    assert off.relative == pytest.approx(off.value / (1e-8 * 2.0))
    assert off.value == pytest.approx(2e-12 if margin == "total" else 0.0)


def test_plume_without_ridge_has_bound_zero():
    """Without a ridge the objective is not strongly convex, and its bound is 0."""
    rng, X, y, C = drawn_data("plain", seed=2)
    found = certify_plume(X, y, rng.normal(size=(K, M + 1)), gamma=0.7, ridge=0.0, C=C)
    assert (found.dual_value, found.primal_value > 1.0) == (0.0, True)


def test_multipliers_tell_their_assignment():
    """An optimum for another assignment than the natural one is proven, and tells what a move gains."""
    X, y = two_blobs(n=30, m=M, seed=0)
    z = np.where(y > 0, (np.arange(30) // 2) % 2, -1)
    solution = fixed_assignment(X, y, 2, z, 1.0).solve()
    W, alpha = solution["W"], solution.duals["margin"]
    certificate = certify_cpm(X, y, 1.0, W=W, alpha=np.maximum(alpha, 0.0))
    assert certificate.primal_value == pytest.approx(solution.objective, rel=1e-6)
    assert certificate.dual_value == pytest.approx(solution.objective, rel=1e-6)
    held = (y > 0) & (alpha.max(axis=1) > 1e-5)
    assert (natural_assignment(X, y, W)[held] != z[held]).any()
    found = next(r for r in certificate.residuals if r.row == "assignment")
    hinge = np.maximum(1.0 - np.column_stack([X, np.ones(30)]) @ W.T, 0.0)
    gain = np.where(held, hinge[np.arange(30), np.maximum(z, 0)] - hinge.min(axis=1), 0.0)
    assert (found.value, found.relative) == (pytest.approx(gain.max(), rel=1e-6),) * 2
    assert found.worst == gain.argmax()


@pytest.mark.parametrize("certify", [certify_polyceptron, certify_pc_slp])
def test_faces_without_box_get_one(certify):
    """An infinite R is R = 10 max |W|; faces of zeros count as of size 1 / 10."""
    rng, X, y, C = drawn_data("plain", seed=2)
    W = rng.normal(size=(K, M + 1))
    unbounded = certify(X, y, W, C=C, radius=np.inf)
    largest = 10.0 * np.abs(W).max()
    boxed = certify(X, y, W, C=C, radius=largest)
    assert f"entries of up to {largest:.4g}." in unbounded.note
    assert unbounded.dual_value == pytest.approx(boxed.dual_value, rel=1e-6)
    assert unbounded.primal_value == boxed.primal_value
    assert "entries of up to 1." in certify(X, y, 0.0 * W, C=C, radius=np.inf).note


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "fits"),
    [
        ((2, 3), 2, 3, True), ((2, 3), None, 3, True), ((2, 3), 2, None, True), ((1, 1), None, None, True),
        ((2, 3), 3, 3, False), ((2, 3), 2, 2, False), ((0, 3), None, 3, False), ((3,), 3, None, False),
        ((3, 0), 3, None, False), ((2, 3, 1), 2, 3, False),
    ],
)  # fmt: skip
def test_faces_have_requested_shape(shape, rows, columns, fits):
    """Faces of another shape are refused, by name."""
    if fits:
        assert checked_faces("W", np.ones(shape), rows, columns).shape == shape
        return
    with pytest.raises(ValueError, match="W must be finite, of shape"):
        checked_faces("W", np.ones(shape), rows, columns)


# -- bad input -------------------------------------------------------------------------------------

FACES = np.ones((2, 3))
GIVEN = {
    certify_cpm: {"W": FACES},
    certify_spla1: {"W": FACES, "ridge": 1.0},
    certify_plume: {"W": FACES, "ridge": 1.0, "gamma": 1.0},
    certify_polyceptron: {"W": FACES},
    certify_pc_slp: {"W": FACES},
    certify_l0: {"alpha": np.zeros(N), "b": 0.0, "u": np.zeros(N)},
    certify_one_norm: {"C": 1.0, "alpha": np.zeros(N), "b": 0.0, "u": np.zeros(N)},
}
ANY = np.full(N, np.nan)
WRONG = [
    {"W": np.full((2, 3), np.nan)}, {"W": FACES + 1j}, {"W": np.ones((2, 2))}, {"W": np.ones((0, 3))},
    {"tol": np.inf}, {"tol": np.nan}, {"tol": -1.0}, {"tol": [1e-6]}, {"tol": 0.0}, {"tol": 1.0},
    {"C": np.nan}, {"C": -1.0}, {"C": 1j}, {"C": "one"}, {"ridge": np.nan}, {"ridge": [1.0]},
    {"gamma": np.inf}, {"radius": np.nan}, {"radius": -1.0}, {"max_iter": -1}, {"max_iter": 0.5},
    {"assignment": np.full(N, 0.5)}, {"assignment": np.full(N, 7)}, {"assignment": ANY},
    {"alpha": np.full((N, 2), np.inf)}, {"alpha": np.ones((N - 1, 2))}, {"alpha": "none"},
    {"alpha": [1j] * N}, {"u": np.full((N, 2), np.nan), "q": np.ones(N)}, {"u": [1.0]}, {"v": ANY},
    {"v": [1.0]}, {"responsibilities": np.ones((N, 2))}, {"b": np.nan}, {"b": np.inf}, {"b": np.zeros(4)},
    {"b": 1j}, {"b": "0"}, {"bound": np.nan}, {"bound": [1.0, 2.0]}, {"bound": 1j}, {"weights": ANY},
    {"weights": -np.ones(N)}, {"weights": np.zeros(N)}, {"centres": np.full(N, 2.0)}, {"centres": ANY},
    {"centres": [1j] * N}, {"global_bound": np.nan}, {"entry_error": np.nan}, {"entry_error": -1e-9},
]  # fmt: skip
REFUSED = [
    pytest.param(certify, wrong, id=f"{certify.__name__}-{wrong}"[:60])
    for certify in GIVEN
    for wrong in WRONG
    if set(wrong) <= set(inspect.signature(certify).parameters)
]


@pytest.mark.parametrize(("certify", "wrong"), REFUSED)
def test_bad_number_is_refused(certify, wrong):
    """Every argument that is not of its kind is refused by name."""
    _, X, y, _ = drawn_data("plain", seed=0)
    given = {**GIVEN[certify], **wrong}
    samples = np.eye(N) if "b" in GIVEN[certify] else X
    with pytest.raises(ValueError, match=rf"(?s)({'|'.join(wrong)}).*must"):
        certify(samples, y, **given)
