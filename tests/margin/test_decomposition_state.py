"""Kernel rows and the iterate of the decomposition: what is cached, updated and rounded."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from formulations.families import hinge_families
from formulations.language.clock import Clock, OutOfTimeError
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.linalg.kernels import Kernel, MatrixGram, SampleGram, gram_matvec, submatrix
from polyopt.margin.decomposition import Options
from polyopt.margin.decomposition.newton import NewtonPhase
from polyopt.margin.decomposition.state import DEFAULTS, Dual, History, RowCache, State


def unnamed(A, Z):
    product = A @ Z.T
    return (1.0 + (product.toarray() if sp.issparse(product) else product)) ** 2


RBF = Kernel("rbf", gamma=0.4)
KERNELS = {
    "linear": Kernel("linear"), "rbf": RBF, "cubic": Kernel("poly", 0.2, 3, 1.0),
    "square": Kernel("poly", 0.2, 2, -0.5), "sigmoid": Kernel("sigmoid", 0.1, coef0=0.3),
    "callable": Kernel(unnamed),
}  # fmt: skip
FORMS = {
    "dense": np.array, "CSR": sp.csr_array, "float32": np.float32,
    "CSR float32": lambda X: sp.csr_array(np.float32(X)),
}  # fmt: skip


def point_of(B, dtype=np.float64, n=40):
    """A point of a machine of some samples, its matrix, and a beta within its caps."""
    X, y = two_blobs(n=n, separation=0.5)
    point = State(SampleGram(X, RBF), 1e6)
    point.cache = RowCache(point.gram, 1e6, dtype)
    point.dual = Dual(hinge_families(y, 1.0, B))
    beta = point.dual.join({"margin": np.random.default_rng(0).uniform(0, 1, n)})
    return point, RBF(X), beta


# -- kernel rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_blocks_are_those_of_the_matrix(kernel, form, rng):
    """Rows, diagonal, submatrices and products of any form of the samples are those of the matrix."""
    X = rng.normal(size=(70, 6)) + 3.0
    X[:, 2], X[:, 4] = 0.0, 1.5
    X[X < 2.0] = 0.0
    X = np.float32(X).astype(float)  # a copy in single precision is the same data
    K, gram = kernel(X), SampleGram(form(X), kernel)
    rows, columns, scale = np.array([3, 60, 7]), np.array([0, 3, 8, 60]), np.abs(K).max()
    assert gram.diagonal() == pytest.approx(K.diagonal(), rel=1e-12)
    assert submatrix(gram, columns) == pytest.approx(K[np.ix_(columns, columns)], abs=1e-13 * scale)
    for dtype, close in ((np.float64, 1e-13), (np.float32, 1e-5)):
        some = gram.panel(columns, dtype).rows(rows)
        assert some.dtype == dtype
        assert some == pytest.approx(K[np.ix_(rows, columns)], abs=close * scale)
        assert gram.panel(None, dtype).rows(rows) == pytest.approx(K[rows], abs=close * scale)
    v = np.where(rng.random(70) < 0.5, rng.normal(size=70), 0.0)
    assert gram_matvec(gram, v) == pytest.approx(K @ v, abs=1e-12 * scale)
    assert (gram_matvec(gram, 0.0 * v, rows) == 0.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", list(KERNELS.values())[:5], ids=list(KERNELS)[:5])
@pytest.mark.parametrize("form", [np.array, sp.csr_array], ids=["dense", "CSR"])
def test_weighted_rows_are_those_of_the_matrix(kernel, form, dtype, rng):
    """Some entries of a product with sparse coefficients, one of whose samples lies far out."""
    X = rng.normal(size=(600, 4))
    X[7] *= 40.0  # so far out that single precision takes its row by differences
    rows, columns = rng.permutation(600)[:530], np.sort(rng.permutation(600)[:560])
    weights, K = rng.normal(size=560), kernel(X)[np.ix_(rows, columns)]
    coefficients = np.zeros(600)
    coefficients[columns] = weights
    found = gram_matvec(SampleGram(form(X), kernel), coefficients, rows, dtype=dtype)
    close = 1e-13 if dtype == np.float64 else 2e-5
    assert (np.abs(found - K @ weights) <= close * (np.abs(K) @ np.abs(weights)) + 1e-12).all()


def test_outliers_are_right_in_single_precision(rng):
    """A few samples far out, whose rows by products would lose all digits, have right kernel rows."""
    X = rng.normal(size=(300, 4))
    X[:3, 0] += 100.0  # near one another, and far from all others
    gram = SampleGram(X, RBF)
    assert gram.is_single()
    every = np.arange(300)
    left, right = (gram.operand(every, np.dtype(np.float32), left=side) for side in (True, False))
    exact = RBF(X)
    products = np.exp(np.minimum(np.float32(left) @ right.T, 0.0))
    assert np.abs(products - exact)[:3, :3].max() > 1e-5  # what would be lost
    assert np.abs(gram.panel(None, np.float32).rows(every) - exact).max() < 1e-5
    X[:150, 0] += 100.0
    assert not SampleGram(X, RBF).is_single()


def test_threads_change_no_bit_of_rows(rng):
    """Rows and their weighted sums are the same bits on one thread and on two."""
    X, weights, some = rng.normal(size=(9000, 5)), rng.normal(size=300), np.arange(0, 900, 3)
    answers = []
    for count in (1, 2):
        with threadpool_limits(count):
            rows = RowCache(SampleGram(X, RBF), 64 * 2.0**20, np.float32)
            rows.fetch(some)
            answers.append((rows.table[:300].copy(), rows.combine(some, weights)))
    for one, two in zip(*answers, strict=True):
        assert np.array_equal(one, two)


@given(st.integers(0, 10**6))
def test_cached_rows_are_right_after_any_past(seed):
    """Rows fetched, driven out, cut and widened at random are always those of the matrix."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    K = rng.normal(size=(n, n))
    K += K.T
    rows = RowCache(MatrixGram(K), budget=8 * n * rng.integers(2, 2 * n), dtype=np.float64)
    for _ in range(12):
        if rng.random() < 0.4:
            some = np.flatnonzero(rng.random(n) < rng.uniform(0.2, 1.0))
            rows.set_active(some if len(some) and rng.random() < 0.8 else np.arange(n))
        samples = rng.permutation(n)[: rng.integers(1, min(rows.capacity, n) + 1)]
        slots = rows.fetch(samples)
        assert (rows.table[slots] == K[np.ix_(samples, rows.active)]).all()
        weights = rng.normal(size=len(samples))
        assert rows.combine(samples, weights) == pytest.approx(weights @ K[np.ix_(samples, rows.active)])
        assert rows.bytes <= max(rows.table.nbytes, 8 * n)
    assert rows.computed + rows.hits > 0


def test_requested_rows_are_not_replaced():
    """Rows of the present request make no room for one another."""
    K = np.arange(100.0).reshape(10, 10)
    rows = RowCache(MatrixGram(K), 1e4, np.float64, Options(max_fresh_rows=3))
    rows.fetch(np.array([0, 1, 2]))
    wanted = np.array([0, 1, 3, 4])
    assert np.array_equal(rows.table[rows.fetch(wanted)], K[wanted])
    assert rows.is_cached(np.arange(5)).all()


@pytest.mark.parametrize("form", [np.array, sp.csr_array], ids=["dense", "CSR"])
def test_out_of_time_leaves_the_point(form, rng):
    """A product that runs out of time raises, and leaves beta and scores as they were."""
    clock, y = Clock(0.0), np.where(np.arange(60) % 2, 1.0, -1.0)
    point = State(SampleGram(form(rng.normal(size=(60, 2))), RBF), 1e7)
    with pytest.raises(OutOfTimeError):
        gram_matvec(point.gram, np.ones(60), tick=clock.check)
    point.dual = Dual(hinge_families(y, np.ones(60)))
    point.move_to(0.1 * y)
    beta, g = point.beta.copy(), point.g.copy()
    for step in (
        lambda: point.recompute(clock.check, 0.2 * y),
        lambda: point.recompute(clock.check),
        lambda: point.refresh(1e-3, clock.check),
    ):
        with pytest.raises(OutOfTimeError):
            step()
        assert np.array_equal(point.beta, beta)
        assert np.array_equal(point.g, g)


# -- scores ------------------------------------------------------------------------------------


def test_scores_set_aside_are_updated():
    """Samples set aside keep old scores until the update, which changes theirs alone."""
    point, K, beta = point_of(np.inf)
    point.set_point(beta.copy(), K @ beta)
    active = np.arange(0, 40, 2)
    point.cache.set_active(active)
    for _ in range(2):
        beta[active[:2]] += [0.25, -0.25]
        point.change(active[:2], beta[active[:2]])
        assert not point.is_up_to_date
        assert point.g[active] == pytest.approx((K @ beta)[active])
    assert point.g[1::2] != pytest.approx((K @ beta)[1::2], abs=1e-3)
    for _ in range(2):
        point.update_aside()
        assert point.is_up_to_date
        assert point.g == pytest.approx(K @ beta)


def test_violating_samples_are_activated():
    """Samples set aside become active again if they violate optimality by more than the tolerance."""
    point, K, beta = point_of(1.2)
    point.set_point(beta, K @ beta)
    point.cache.set_active(np.arange(0, 40, 2))
    assert not point.unshrink(2.0 * point.violation())
    assert len(point.cache.active) == 20
    assert point.unshrink(1e-3)
    rise, fall, m, M = point.derivatives()
    violating = np.flatnonzero((rise >= M) | (fall <= m))
    assert set(violating) | set(range(0, 40, 2)) == set(point.cache.active)
    point.activate_all()
    assert not point.unshrink(1e-3)


def test_values_follow_point_and_program():
    """Objective, bound and intercept are cached, and computed anew for another beta, g or program."""
    point, K, beta = point_of(1.2)
    y, seen = np.sign(beta), []
    for scale, shift, C in ((1.0, 0.0, 1.0), (0.5, 0.0, 1.0), (0.5, 0.1, 1.0), (0.5, 0.1, 2.0)):
        if C == 2.0:
            point.dual = Dual(hinge_families(y, C, 1.2))
        point.set_point(scale * beta, scale * K @ beta + shift * y)
        wanted = point.dual.values(point.beta, point.g)
        assert point.values() == point.values() == wanted
        assert point.intercept() == point.dual.families.best_intercept(point.g)
        seen.append(wanted["objective"])
    assert len(set(seen)) == 4


@pytest.mark.parametrize(("error", "expected"), [(0.9, True), (-0.9, True), (1.1, False), (-1.1, False)])
def test_scores_err_by_tenth_of_tolerance(error, expected):
    """An error of a tenth of the tolerance at the sample nearest to the margin is the largest tolerated."""
    point, K, beta = point_of(np.inf, np.float32)
    point.set_point(beta, K @ beta)
    rise, fall, *_ = point.derivatives()
    middle = (rise.max() + fall.min()) / 2
    point.g[np.minimum(middle - rise, fall - middle).argmin()] += error * 1e-3
    assert point.is_accurate(1e-2) == expected
    point.use_double()
    point.g += 1.0
    assert point.is_accurate(1e-2)  # double precision is trusted


def test_rounding_is_measured_on_current_scores():
    """The old scores of samples set aside are not counted as rounding, errors of the active ones are."""
    point, K, _ = point_of(np.inf, np.float32, n=300)
    point.cache.set_active(np.arange(0, 300, 2))
    point.change(np.arange(0, 300, 10), 0.5 * np.sign(point.dual.families["margin"].side)[::10])
    assert not point.is_up_to_date
    assert point.is_accurate(1e-3)
    point.refresh(1e-3)
    point.update_aside()
    assert point.g == pytest.approx(K @ point.beta, abs=1e-5)
    point.g[::2] += 0.01
    assert not point.is_accurate(1e-3)


@pytest.mark.parametrize("size", [1e2, 3e3, 1e5])
def test_trusted_scores_are_right(size):
    """Scores called accurate are within their tolerance, also of few samples that keep old rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 20))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=2100))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T + 1) / 2
    point = State(MatrixGram(K), 1e9)
    assert not point.is_double
    point.dual = Dual(hinge_families(y, 1.0))
    some = rng.choice(2100, 300, replace=False)
    beta = y[some] * rng.random(300)
    beta *= 4 / np.linalg.norm(beta @ X[some])  # outputs of size 2
    point.change(some, size * rng.normal(size=300))
    point.change(some, beta)
    point.recompute_at(point.near_margin(DEFAULTS.double_band))

    def is_right():
        rise, fall, *_ = point.derivatives()
        middle = (rise.max() + fall.min()) / 2
        error = np.abs(K @ point.beta - point.g)
        return (error <= np.maximum(1e-3, np.minimum(middle - rise, fall - middle))).all()

    assert is_right() or not point.is_accurate(1e-3)
    for _ in range(3):  # recomputed scores may move the intercept from which others are near
        point.refresh(1e-3)
    assert point.is_accurate(1e-3)
    assert is_right()


# -- the Newton phase and the answer -----------------------------------------------------------


@pytest.mark.parametrize("rows", ["cached", "single precision", "set aside", "computed"])
def test_newton_phase_halves_the_tolerance(rows):
    """The phase ends at half the tolerance, with scores in double precision wherever its rows come from."""
    point, K, beta = point_of(1.2, np.float32 if rows == "single precision" else np.float64)
    point.set_point(beta, K @ beta)
    if rows == "set aside":
        point.cache.set_active(np.arange(3, 40))
    if rows == "cached":
        point.cache.fetch(np.arange(40))
    history = History(point, Clock(), np.inf)
    phase = NewtonPhase(point, history)
    phase.add_set(10**5, 10**6)
    before, chosen = (
        point.values()["bound"],
        point.near_margin(DEFAULTS.newton_band_ratio * point.violation()),
    )
    phase.run(1e-6, force=True)
    assert point.violation() <= 0.5e-6
    assert point.g[chosen] == pytest.approx((K @ point.beta)[chosen], abs=1e-9)
    assert point.values()["bound"] > before
    assert history.iteration > 0


@pytest.mark.parametrize(("share", "is_run"), [(0.999, False), (1.0, True)])
def test_newton_phase_fits_into_memory(share, is_run):
    """The phase is run only if its matrix, factor and two copies fit into the budget."""
    point, K, beta = point_of(1.2)
    point.set_point(beta.copy(), K @ beta)
    chosen = point.near_margin(DEFAULTS.newton_band_ratio * point.violation())
    point.budget = share * DEFAULTS.bytes_per_entry * len(chosen) ** 2
    history = History(point, Clock(), np.inf)
    phase = NewtonPhase(point, history)
    phase.add_set(10**5, 10**6)
    phase.run(1e-6, force=True)
    assert (history.iteration > 0) == is_run
    assert np.array_equal(point.beta, beta) != is_run


class Told(State):
    """A state whose objective is 5, with a bound and a relative gap that are given."""

    bound = told_gap = 0.0

    def values(self):
        return {**super().values(), "objective": 5.0, "bound": self.bound}

    def gap(self):
        return self.told_gap


@pytest.mark.parametrize(("status", "gap", "bound", "said"), [
    (Status.SOLVED, 1.0, 3.0, (Status.SOLVED, 3.0)),
    (Status.SOLVED, 1.0, 5.0, (Status.SOLVED, 5.0)),  # that of the objective
    (Status.SOLVED, 1.0, 5.5, (Status.SOLVED, 0.0)),  # above the objective by rounding
    (Status.SOLVED, 0.0, 5.5, (Status.SOLVED, 5.5)),  # by no more than a negligible gap
    (Status.INACCURATE, 1.0, 3.0, (Status.STALLED, 3.0)),
    (Status.INACCURATE, 0.0, 3.0, (Status.INACCURATE, 3.0)),
    (Status.TIME_LIMIT, 1.0, 3.0, (Status.TIME_LIMIT, 3.0)),
])  # fmt: skip
def test_answer_keeps_its_bound_in_order(status, gap, bound, said):
    """A bound clearly above the objective becomes 0, and inaccurate with a large gap is stalled."""
    X, y = two_blobs(n=40, separation=0.5)
    point = Told(SampleGram(X, RBF), 1e6)
    point.dual = Dual(hinge_families(y, 1.0, 2.0))
    beta = point.dual.join({"margin": np.random.default_rng(0).uniform(0, 1, 40)})
    point.set_point(beta, RBF(X) @ beta)
    point.bound, point.told_gap = bound, gap
    history = History(point, Clock(), np.inf)
    history.record(point.violation())
    found = history.solution(status)
    assert (found.status, found.bound) == said
    assert len(found.history) == 2
