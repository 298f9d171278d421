"""The dual simplex steps of the L0 tree, one by one: each state against linear algebra, each step's gain."""

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls
from scipy.optimize import linprog

from polyopt.sparse import node_program as bases
from polyopt.sparse.node_program import AT_CAP, AT_ZERO, FAILED, INSIDE, OPTIMAL, STOPPED, pivot_to_optimum

INTERCEPT = -1  # its number among the columns of the basis
FIELDS = ("A", "columns", "y", "h", "g", "cap", "full_cap", "free_cost", "on_cost", "tolerance")


def changed(given, **changes):
    """The same program, of which some arrays are others."""
    return bases.PivotProgram(*(changes.get(name, getattr(given, name)) for name in FIELDS))


def run(given, at, on, most=500, cutoff=np.inf):
    return pivot_to_optimum(given, at, on, most, cutoff)


def program(seed, N=9, p=6):
    """A program of random numbers, some columns off, and which centres are to be on; seed: or a generator."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    A = rng.normal(size=(N, p)) * y[:, None]
    full = rng.uniform(0.5, 2.0, p)
    cap = np.where(rng.random(p) < 0.2, 0.0, full)
    parts = (
        A, np.ascontiguousarray(A.T), y, rng.uniform(0.2, 2.0, N),
        rng.uniform(0.5, 1.5, N), cap, full, rng.uniform(0.5, 1.5, p) / full,
        rng.uniform(0.0, 0.3, p) / full,
    )  # fmt: skip
    on = ((rng.random(p) < 0.3) & (cap > 0)).astype(np.int8)
    return bases.PivotProgram(*(anywhere(rng, part) for part in parts), 1e-9), on


def begun(given):
    at = bases.empty_state(*given.A.shape)
    assert bases.begin(given, at)
    return at


def costs(given, on):
    return np.where(on, given.on_cost, given.free_cost)


def dual(given, on, u):
    """The dual function at any u within its caps, in balance."""
    d = costs(given, on) - given.A.T @ u
    fixed = (given.full_cap * (given.free_cost - given.on_cost))[(on == 1) & (given.cap > 0)].sum()
    return u @ given.g + fixed - given.cap @ np.maximum(-d, 0.0)


def optimum(given, on):
    """The least of the program, by HiGHS."""
    N = len(given.y)
    cost = np.r_[costs(given, on), 0.0, given.h]
    rows = -np.c_[given.A, given.y, np.eye(N)]
    bounds = [(0, m) for m in given.cap] + [(None, None)] + [(0, None)] * N
    found = linprog(cost, rows, -given.g, bounds=bounds)
    assert found.status == 0
    return found.fun + (given.full_cap * (given.free_cost - given.on_cost))[(on == 1) & (given.cap > 0)].sum()


def rows_of_basis(given, at, rows):
    """[A_iQ, y_i] of some rows, in the order of the basis."""
    Q = at.Q[: at.sizes[0]]
    return np.where(Q == INTERCEPT, given.y[rows, None], given.A[np.ix_(rows, np.maximum(Q, 0))])


def check(given, at):
    """A state is what the module says that it is."""
    k = at.sizes[0]
    R, Q = at.R[:k], at.Q[:k]
    assert sorted(R) == np.flatnonzero(at.rows == INSIDE).tolist()
    assert sorted(Q) == [INTERCEPT, *np.flatnonzero(at.cols == INSIDE)]
    W = np.linalg.inv(rows_of_basis(given, at, R))
    near = {"rel": 1e-7, "abs": 1e-9}
    assert at.W[:k, :k] == pytest.approx(W, **near)
    # Multipliers and reduced costs.
    ends = np.where(at.rows == AT_CAP, given.h, 0.0)
    assert (at.u == ends)[at.rows != INSIDE].all()
    assert (at.u >= 0).all()
    assert (at.u <= given.h).all()
    assert given.y @ at.u == pytest.approx(0.0, abs=1e-9)
    is_out = at.cols != INSIDE
    d = costs(given, at.on) - given.A.T @ at.u
    assert at.d[is_out] == pytest.approx(d[is_out], **near)
    assert (at.cols[is_out] == np.where((at.d < 0) & (given.cap > 0), AT_CAP, AT_ZERO)[is_out]).all()
    # The point: the basis holds, and all else is at its end.
    a = np.where(is_out, np.where(at.cols == AT_CAP, given.cap, 0.0), 0.0)
    for q, value in zip(Q, W @ (given.g - given.A @ a)[R], strict=True):
        if q == INTERCEPT:
            assert at.b_and_value[0] == pytest.approx(value, **near)
        else:
            a[q] = value
    assert at.a == pytest.approx(a, **near)
    assert at.s == pytest.approx(given.A @ a + given.y * at.b_and_value[0] - given.g, **near)
    assert at.b_and_value[1] == pytest.approx(dual(given, at.on, at.u), **near)


def most_wrong(given, at, on):
    """What is to leave, by the rule: a centre that comes on, else the one farthest off."""
    Q = at.Q[: at.sizes[0]]
    for q, j in enumerate(Q):
        if j != INTERCEPT and on[j] and not at.on[j]:
            return 3, q
    found = [(0.0, 0, 0)]
    for q, j in enumerate(Q):
        if j != INTERCEPT and (off := max(-at.a[j], at.a[j] - given.cap[j])) > given.tolerance:
            found.append((off, 2, q))
    for i in np.flatnonzero(at.rows != INSIDE):
        off = -at.s[i] if at.rows[i] == AT_ZERO else at.s[i]
        if given.h[i] > 0 and off > given.tolerance:
            found.append((off, 1, i))
    return max(found)[1:]


def has_left(before, at, kind, number):
    """Whether the step moved what was to leave; `before` are rows, columns, marks and Q before it."""
    rows, _, on, Q = before
    if kind == 1:
        return at.rows[number] != rows[number]
    if kind == 2:
        return at.cols[Q[number]] != INSIDE
    return at.on[Q[number]] == 1 and on[Q[number]] == 0


def test_pivots_raise_the_dual():
    """Every step is a basis with its point and as far as the dual rises."""
    kinds, flips, grown = np.zeros(4, int), 0, set()
    for seed in range(5):
        given, on = program(seed, 12, 8)
        given = changed(given, free_cost=0.4 * given.free_cost, on_cost=0.4 * given.on_cost)
        at, cap = begun(given), given.cap.copy()
        check(given, at)
        for some in (0 * on, on, np.where(np.arange(8) % 2, on, cap > 0).astype(np.int8)):
            given.cap[:] = np.where((np.arange(8) % 4 == seed % 4) & (some == 0) & on.any(), 0.0, cap)
            run(given, at, some, 0)
            check(given, at)
            assert (at.on == some)[at.cols != INSIDE].all()
            while (leaving := most_wrong(given, at, some))[0]:
                assert kinds.sum() < 300
                kinds[leaving[0]] += 1
                u, k, made, value = at.u.copy(), at.sizes[0], at.sizes[1], at.b_and_value[1]
                before = (at.rows.copy(), at.cols.copy(), at.on.copy(), at.Q.copy())
                assert run(given, at, some, 1) != FAILED
                check(given, at)
                assert has_left(before, at, *leaving)
                others = [
                    ((old == INSIDE) != (new == INSIDE)).any()
                    for old, new in zip(before, (at.rows, at.cols), strict=False)
                ]
                assert at.sizes[1] == made + any(others)
                grown.add(int(at.sizes[0] - k))
                flips += int(((before[1] != at.cols) & (before[1] != INSIDE) & (at.cols != INSIDE)).sum())
                if leaving[0] == 3:
                    continue
                assert at.b_and_value[1] >= value - 1e-12
                for share in (0.5, 0.99, 1.01, 1.5):
                    there = u + share * (at.u - u)
                    if (there >= -1e-12).all() and (there <= given.h + 1e-12).all():
                        assert dual(given, at.on, there) <= at.b_and_value[1] + 1e-9
            assert run(given, at, some) == OPTIMAL
            assert at.sizes[2] == 0
            assert (at.on == some).all()
            assert at.b_and_value[1] == pytest.approx(optimum(given, some), rel=1e-9)
    assert (kinds[1:] >= [20, 2, 2]).all()
    assert flips > 0
    assert grown == {-1, 0, 1}


def test_child_continues_from_parent_basis():
    """A child comes to its own optimum from the parent's basis."""
    steps = 0
    for seed in range(6):
        given, on = program(seed, 14, 8)
        at, work = begun(given), bases.empty_state(14, 8)
        assert run(given, at, np.zeros(8, np.int8)) == OPTIMAL
        bases.copy_state(at, work)
        check(given, work)
        child = changed(given, cap=np.where(np.arange(8) % 3 == 0, 0.0, given.full_cap))
        on[::3] = 0
        assert run(child, work, on) == OPTIMAL
        check(child, work)
        assert work.b_and_value[1] == pytest.approx(optimum(child, on), rel=1e-9)
        steps += work.sizes[2]
    assert steps > 3


def test_runs_end_at_their_limits():
    """After so many steps and no more, or once a value is enough, whatever is left to do."""
    for seed in range(6):
        given, on = program(seed, 14, 8)
        once, twice = begun(given), begun(given)
        assert run(given, once, on, 2) == STOPPED
        for _ in range(2):
            assert run(given, twice, on, 1) == STOPPED
        assert twice.b_and_value == pytest.approx(once.b_and_value, rel=1e-12)
        enough = begun(given)
        run(given, enough, on, 0)
        value = enough.b_and_value[1]
        assert run(given, enough, on, 9, value) == STOPPED
        assert enough.sizes[1] == 0


def solved(program_and_on):
    """A program and the state at its optimum, which HiGHS finds too."""
    given, on = program_and_on
    at = begun(given)
    assert run(given, at, on, 5000) == OPTIMAL
    check(given, at)
    assert at.b_and_value[1] == pytest.approx(optimum(given, on), rel=1e-9)
    return given, at


@drawn_calls("l0_load", "l0_pivot_to_optimum", "l0_copy", N=[2, 3, 8, 13], p=[1, 2, 5, 9, 17])
def test_programs_of_any_shape_are_solved(rng, N, p):
    """The marks of the optimum's basis alone bring it back."""
    given, at = solved(program(rng, N, p))
    fresh, copied = bases.empty_state(N, p), bases.empty_state(N, p)
    fresh.rows[:], fresh.cols[:], fresh.on[:] = at.rows, at.cols, at.on
    assert bases.load(given, fresh)
    bases.copy_state(at, copied)
    for other in (fresh, copied):
        check(given, other)
        assert other.b_and_value == pytest.approx(at.b_and_value, rel=1e-9, abs=1e-12)


def test_inverse_is_made_anew():
    """A run of more steps than one inverse is kept for comes to the optimum."""
    assert solved(program(1, 120, 60))[1].sizes[2] > 60


def test_marks_without_basis_are_refused():
    """And the node is left as it was."""
    given, _ = program(0)
    at = begun(given)
    for marks in ("rows", "cols"):
        kept = getattr(at, marks).copy()
        getattr(at, marks)[:] = INSIDE if marks == "cols" else AT_ZERO
        assert not bases.load(given, at)
        getattr(at, marks)[:] = kept
    at.rows[:] = INSIDE
    assert not bases.load(given, at)
    flat = changed(given, A=np.zeros((9, 6)), columns=np.zeros((6, 9)))
    at = begun(flat)
    at.rows[:2], at.cols[:1] = INSIDE, INSIDE
    assert not bases.load(flat, at)


def test_state_of_other_lengths_is_refused():
    """A state or marks of another program's lengths are not touched."""
    given, on = program(0)
    with pytest.raises(ValueError, match=r"at has p = 5, not p = 6"):
        run(given, bases.empty_state(9, 5), on)
    with pytest.raises(ValueError, match=r"on has shape \(4,\), not \(p\) with p = 6"):
        run(given, begun(given), on[:4].copy())


def test_constant_classifier_favours_heavier_class():
    """Without centres the lighter class pays."""
    for plus, minus in ((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)):
        given, _ = program(3, 8, 3)
        y = np.repeat([1.0, -1.0], 4)
        given = changed(given, y=y, h=np.where(y > 0, plus, minus) * (1 + 0.01 * np.arange(8.0)))
        at = begun(given)
        check(given, at)
        light = 1.0 if given.h[:4].sum() <= given.h[4:].sum() else -1.0
        assert at.sizes[0] == 1
        assert (at.rows[y == light] == AT_CAP).all()
        assert given.y @ at.u == pytest.approx(0.0, abs=1e-12)
        assert (np.cumsum(given.h[y != light]) <= given.h[y == light].sum()).sum() == (
            at.rows[y != light] == AT_CAP
        ).sum()
        alone = changed(given, A=np.zeros((8, 3)), columns=np.zeros((3, 8)))
        assert begun(alone).b_and_value[0] == pytest.approx(-light * given.g[at.R[0]])
    # Where the caps of the others are used up exactly, one of them is inside all the same.
    even = changed(given, h=np.ones(8))
    at = begun(even)
    assert (at.rows == AT_CAP).sum() == 7
    assert (at.rows == INSIDE).nonzero()[0].tolist() == [7]
    check(even, at)


def test_centre_switched_off_pays_nothing():
    """Costs of those that are on count where their columns may be above 0."""
    counted = 0
    for seed in range(6):
        given, _ = program(seed)
        at = begun(given)
        at.on[:] = 1
        bases.load(given, at)
        assert at.b_and_value[1] == pytest.approx(dual(given, at.on, at.u), rel=1e-9)
        counted += (given.cap == 0).sum()
    assert counted > 3
