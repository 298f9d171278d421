"""The interior point on samples in blocks: the optimum of all of them, the same bits whoever holds them."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.families import Families, bound_families, hinge_families, margin_family, optimal_intercepts
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import Claim, certify_rmm, certify_sigma_svm, certify_svm
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point import intercept, solve_interior_point
from polyopt.margin.interior_point.block import Block, Work
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem
from polyopt.margin.interior_point.rows import Rows
from polyopt.scale.crew import Change, Crew, Local, catch_up, total


def blocks_of(X, y, costs, B, cuts, weights=None):
    work, ends = Work(), [0, *cuts, len(y)]
    parts = [slice(a, b) for a, b in pairwise(ends) if b > a]
    return [
        Block(Rows(X[p]), hinge_families(y[p], costs[p], B), 1, None if weights is None else weights[p], work)
        for p in parts
    ]


def solved(crew, D=None, tol=1e-8, max_iter=None, clock=None):
    problem = state_problem(crew, 1, D)
    return problem, solve_problem(problem, tol, max_iter, clock or Clock())


def whole_certificate(X, y, costs, B, D, weights, solution, Z, shift, tol=1e-6):
    b = float(solution["b"]) - (float(shift @ solution["w"]) if D is not None else 0.0)
    vectors = {"w": solution["w"], "b": b, "alpha": Z[0], "tol": tol}
    if D is not None:
        return certify_sigma_svm(X, y, costs, D, weights=weights, **vectors | {"b": float(solution["b"])})
    if np.isinf(B):
        return certify_svm(X, y, costs, **vectors)
    return certify_rmm(X, y, costs, B, lam=Z[1], lam_star=Z[2], **vectors)


def certificate_of(crew, problem, solution, B, D, is_sparse, tol=1e-6):
    w, b = solution["w"], float(solution["b"])
    if D is not None:
        b -= float(problem.shift @ w)
    rows = hinge_families(np.array([1.0, -1.0]), 1.0, B)
    ask = lambda *order: crew.ask("prove", *order)  # noqa: E731
    centre = None if is_sparse else problem.shift
    return certify_blocks("it", ask, rows, v=w, b=b, centre=centre, D=D, tol=tol)


@pytest.mark.parametrize(("B", "D"), [(np.inf, None), (1.4, None), (np.inf, 0.5), (np.inf, 1.0)])
@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_blocks_certify_like_the_whole(B, D, form, rng):
    """Blocks have the optimum, the certificate and the residuals of all samples together."""
    X, y = two_blobs(n=90, m=3, separation=1.5, seed=4)
    X, costs = X + 3.0, rng.uniform(0.3, 2.0, len(y))
    whole = solve_interior_point(form(X), hinge_families(y, costs, B), D=D, weights=costs)
    crew = Local(blocks_of(form(X), y, costs, B, [7, 7, 50, 51], costs))
    problem, parts = solved(crew, D)
    assert parts.status is Status.SOLVED
    assert parts.objective == pytest.approx(whole.objective, rel=1e-7)
    assert parts["w"] == pytest.approx(whole["w"], abs=1e-4)
    Z = np.concatenate(crew.ask("multipliers"), axis=1)
    mine = certificate_of(crew, problem, parts, B, D, form is sp.csr_array)
    theirs = whole_certificate(form(X), y, costs, B, D, costs, parts, Z, problem.shift)
    assert mine.claim is theirs.claim is Claim.OPTIMAL
    assert mine.primal_value == pytest.approx(theirs.primal_value, rel=1e-12)
    assert mine.dual_value == pytest.approx(theirs.dual_value, rel=1e-12)
    for one, other in zip(mine.residuals, theirs.residuals, strict=True):
        assert (one.condition, one.row) == (other.condition, other.row)
        assert one.relative == pytest.approx(other.relative, rel=1e-3, abs=1e-13)
        if one.condition != "stationarity" and one.relative > 1e-12:
            assert one.worst == other.worst


@pytest.mark.parametrize("D", [None, 0.5])
def test_blocks_certify_any_point(D, rng):
    """Infeasible multipliers, outputs beyond the bound and another w have the certificate of the whole."""
    X, y = two_blobs(n=60, m=3, separation=1.0, seed=1)
    costs, B = np.ones(60), np.inf if D else 1.2
    crew = Local(blocks_of(X, y, costs, B, [10, 33]))
    problem, found = solved(crew, D, max_iter=2)
    for block in crew.blocks:
        kept = block.best_beta + 0.2 * rng.normal(size=len(block.best_beta))
        block.multipliers = lambda block=block, kept=kept: block.families.split(kept) + 0.1
    bad = replace(found, primal=found.primal | {"w": 1.5 * found["w"]})
    Z = np.concatenate([block.multipliers() for block in crew.blocks], axis=1)
    mine = certificate_of(crew, problem, bad, B, D, False)
    theirs = whole_certificate(X, y, costs, B, D, np.ones(60), bad, Z, problem.shift)
    assert mine.claim is theirs.claim is not Claim.OPTIMAL
    assert mine.primal_value == pytest.approx(theirs.primal_value, rel=1e-12)
    assert mine.dual_value == pytest.approx(theirs.dual_value, rel=1e-9, abs=1e-9)
    for one, other in zip(mine.residuals, theirs.residuals, strict=True):
        assert (one.condition, one.row, one.worst) == (other.condition, other.row, other.worst)
        assert one.relative == pytest.approx(other.relative, rel=1e-6)


class Careless(Crew):
    """Blocks that are lost now and then, and made anew from their samples and the log."""

    def __init__(self, make, seed):
        super().__init__()
        self._make, self._rng, self._held = make, np.random.default_rng(seed), {}
        self.lost = 0

    @property
    def count(self):
        return len(self._make)

    def _results(self, ask):
        order = self._rng.permutation(self.count)
        answers = {int(k): self._answer(int(k), pickle.loads(pickle.dumps(ask))) for k in order}
        return [answers[k] for k in range(self.count)]

    def _answer(self, k, ask):
        if self._rng.random() < 0.1 and k in self._held:
            del self._held[k]
            self.lost += 1
        if k not in self._held:
            self._held[k] = self._make[k]()
        return catch_up(self._held[k], pickle.loads(pickle.dumps(self.log)), 0, ask)


@pytest.mark.parametrize(("B", "D"), [(np.inf, None), (1.4, None), (np.inf, 0.5)])
def test_lost_blocks_change_no_bit(B, D):
    """Threads, and blocks that are lost and made anew from the log, change no bit of the result."""
    X, y = two_blobs(n=200, m=4, separation=1.0, seed=2)
    cuts, costs = [13, 14, 60, 77, 120, 121, 160, 171, 172, 190], np.ones(200)
    problem, first = solved(Local(blocks_of(X, y, costs, B, cuts)), D)
    careless = Careless(
        [lambda k=k: blocks_of(X, y, costs, B, cuts)[k] for k in range(len(cuts) + 1)], seed=5
    )
    others = [Local(blocks_of(X, y, costs, B, cuts), lambda _, call: call()), careless]
    proof = certificate_of(problem.crew, problem, first, B, D, False)
    for crew in others:
        again, found = solved(crew, D)
        assert found["w"].tobytes() == first["w"].tobytes()
        assert (float(found["b"]), found.objective, found.bound, found.iterations) == (
            float(first["b"]), first.objective, first.bound, first.iterations
        )  # fmt: skip
        same = certificate_of(crew, again, found, B, D, False)
        assert (same.primal_value, same.dual_value) == (proof.primal_value, proof.dual_value)
        assert same.residuals == proof.residuals
    assert careless.lost > 20


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 50),
    m=st.integers(1, 5),
    B=st.sampled_from([np.inf, 1.0, 1.5]),
    C=st.sampled_from([1e-4, 1.0, 1e3]),
    kind=st.sampled_from(["plain", "duplicates", "separable", "constant", "imbalanced"]),
    data=st.data(),
)
def test_any_blocks_end_certified(seed, n, m, B, C, kind, data):
    """Any blocks of degenerate data end with a proof if all samples together do."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    if kind == "duplicates":
        X = X[rng.integers(0, max(n // 4, 1), n)]
    elif kind == "separable":
        X[:, 0] += 5.0 * y
    elif kind == "constant":
        X[:, -1] = 7.0
    elif kind == "imbalanced":
        y[:] = -1.0
    y[:2] = [1.0, -1.0]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    whole = solve_interior_point(X, hinge_families(y, np.full(n, C), B))
    crew = Local(blocks_of(X, y, np.full(n, C), B, cuts))
    problem, found = solved(crew)
    assert found.objective == pytest.approx(whole.objective, rel=1e-6)
    assert found.bound <= whole.objective * (1 + 1e-9)
    if whole.status is Status.SOLVED:
        assert found.status is Status.SOLVED
        assert certificate_of(crew, problem, found, B, None, False, tol=1e-5).claim is Claim.OPTIMAL


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), grain=st.sampled_from([None, 1.0]), B=st.booleans())
def test_blocks_agree_on_the_intercept(seed, n, grain, B):
    """The cheapest intercepts of blocks are those of all samples, by listed breakpoints and by histograms."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=n) if grain is None else np.round(rng.normal(size=n))
    y, costs = rng.choice([-1.0, 1.0], n), rng.choice([0.0, 0.5, 1.0, 2.0], n)
    costs[0] = 1.0
    rows = Families(margin_family(y, costs), *(bound_families(n, 1.5, 0.3) if B else ()))
    wanted = optimal_intercepts(rows.slack_costs, g)
    cut = int(rng.integers(0, n + 1))
    ends = [(a, b) for a, b in ((0, cut), (cut, n)) if a < b]
    parts = [(rows.part(np.arange(a, b)), g[a:b]) for a, b in ends]

    def ask(name, w, *more):
        return [getattr(intercept, name)(some, scores, *more) for some, scores in parts]

    for listed in (50_000, 0):
        low, high = intercept.best_intercept_interval(ask, total, np.zeros(1), listed)
        cost = [rows.cost(g + b) for b in (low, high, *wanted) if np.isfinite(b)]
        assert np.ptp(cost) <= 1e-12 + 1e-9 * max(cost, default=0.0)
        if np.isfinite(wanted).all() and np.isfinite([low, high]).all():
            assert high - low == pytest.approx(wanted[1] - wanted[0], abs=1e-12)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_slope_by_rounding_is_flat(size):
    """0.1 + 0.2 down against 0.3 up: the slope is rounding, and the slacks cost the same in between."""
    y, costs = np.array([-1.0, -1.0, 1.0, 1.0]), size * np.array([0.1, 0.2, 0.3, 1.0])
    rows, g = hinge_families(y, costs), np.array([0.0, 0.0, -3.0, 9.0])

    def ask(name, w, *more):
        return [getattr(intercept, name)(rows, g, *more)]

    assert intercept.best_intercept_interval(ask, sum, np.zeros(1)) == pytest.approx((-1.0, 4.0))


def test_late_slopes_take_the_last_edge():
    """If rounded sums of the bins rise at no edge, the breakpoint is sought at the last edge."""
    ends = intercept.BreakpointRange(0.0, 8.0, 10**9, 10.0, 4.0, True)
    asked = []

    def ask(name, w, *more):
        asked.append((name, more))
        if name == "breakpoint_range":
            return [ends]
        if name == "list_breakpoints":
            return [intercept.ListedBreakpoints(3.0, np.array([more[1]]), np.array([1.0]), np.inf)]
        found = np.zeros((2, len(more[0]) + 1))
        found[0, -1], found[1] = 4.0, 1.0  # all of it beyond the last edge
        return [found]

    found = intercept.best_intercept_interval(ask, sum, np.zeros(1))
    (_, (low, high)) = asked[-1]
    assert low < high == 8.0
    assert found == (8.0, np.inf)


@pytest.mark.parametrize(("applied", "changes", "result"), [(3, 3, ("moved", 4)), (4, 2, "as it was")])
def test_block_applies_missed_changes(applied, changes, result):
    """From a log that begins at its change 2, a block applies only what it has missed."""
    block = SimpleNamespace(n_applied=applied, last_result="as it was", move=lambda step: ("moved", step))
    log = [Change("move", (step,)) for step in (2, 3, 4)][:changes]
    assert catch_up(block, log, 2, None) == result
    assert block.n_applied == 2 + changes


def test_stopped_blocks_keep_a_bound():
    """A limit, or Ctrl-C with some blocks ahead of others, keeps a point with a proven bound."""
    X, y = two_blobs(n=120, m=3, separation=1.0, seed=3)
    costs, cuts = np.ones(120), [30, 60, 90]
    optimum = solve_interior_point(X, hinge_families(y, costs, 1.5)).objective
    for limit, status in (
        ({"max_iter": 3}, Status.ITERATION_LIMIT),
        ({"clock": Clock(1e-9)}, Status.TIME_LIMIT),
        ({}, Status.INTERRUPTED),
    ):
        crew = Local(blocks_of(X, y, costs, 1.5, cuts))
        if status is Status.INTERRUPTED:  # in the midst of a round: some blocks are ahead of others
            crew.blocks[2].set_direction = raising_at(crew.blocks[2].set_direction, 5)
        problem, found = solved(crew, **limit)
        assert found.status is status
        assert found.bound <= optimum * (1 + 1e-9)
        assert found.objective >= optimum * (1 - 1e-9)
        proof = certificate_of(crew, problem, found, 1.5, None, False)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert proof.dual_value <= optimum <= proof.primal_value
        if status is not Status.TIME_LIMIT:
            assert 0.0 < proof.dual_value == pytest.approx(found.bound, rel=1e-9)


def raising_at(method, count):
    calls = iter(range(count))

    def call(*arguments):
        if next(calls, None) is None and not raised:
            raised.append(1)
            raise KeyboardInterrupt
        return method(*arguments)

    raised = []
    return call


def test_sums_are_taken_in_groups():
    """Sums over blocks are taken in groups of eight, in the order of the blocks."""
    terms = list(np.random.default_rng(0).normal(size=70))
    groups = [sum(terms[k + 1 : k + 8], start=terms[k]) for k in range(0, 70, 8)]
    tops = [sum(groups[1:8], start=groups[0]), groups[8]]
    assert float(total(terms)) == tops[0] + tops[1]


def test_other_threads_arrays_are_recomputed(rng):
    """A block that another thread has moved has the survey of one that this thread has moved."""
    X, y = two_blobs(n=40, m=3, separation=1.0, seed=1)

    def after(call, looks):
        (block,) = blocks_of(X, y, np.ones(40), np.inf, [])
        block.place(np.zeros(3), False)
        block.begin(1.0, 1e-9)
        block.set_rhs(0.0, 0.0)
        if looks:
            block.survey()
        call(block.set_direction, np.full(4, 0.1))
        call(block.move, 0.5)
        call(block.set_dual_reg, 1e-3)
        return block.survey()

    with ThreadPoolExecutor(1) as other:
        elsewhere = after(lambda *call: other.submit(*call).result(), looks=True)
    for looks in (True, False):  # without a look before, the room is new
        here = after(lambda change, *of: change(*of), looks)
        assert pickle.dumps(elsewhere) == pickle.dumps(here)
