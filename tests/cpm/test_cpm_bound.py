"""The bound of joint moves on a partial assignment, each of its parts against its definition."""

import numpy as np
import pytest
from helpers.cpm import INSIDE, NPOS, WIDTH, add_up, half_assigned
from helpers.cpm_parts import MARGIN, charge, cost_on, hyperplane_error, joint_move, shift

from polyopt.cpm.global_search.assignment_tree import moves_for, try_move
from polyopt.cpm.global_search.face import UNIT, Samples, climb, dual_error, dual_value, hyperplane


def arrays_of(moves):
    """The arrays of a struct, by name."""
    return [(name, part) for name, part in vars(moves).items() if isinstance(part, np.ndarray)]


def made(seed):
    """Moves of four positives to two faces, with the products of all kinds of sign."""
    rng = np.random.default_rng(seed)
    moves = moves_for(4, 8, WIDTH, 2)
    moves.joint_e[:], moves.e[:] = rng.normal(size=(4, 2, WIDTH)), rng.normal(size=(4, 2, WIDTH))
    moves.norm[:] = np.linalg.norm(moves.joint_e, axis=2)
    moves.norm_error[:] = 1e-3 * moves.norm
    return rng, moves, np.array([2, 0, 1])


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_face_is_shifted_by_half_moves(seed, p):
    """A face is shifted by half of the moves of other samples that have a positive product with p's."""
    rng, moves, others = made(seed)
    v = rng.normal(size=WIDTH)
    wanted = v.copy()
    for r in others[others != p]:
        if moves.joint_e[r, 1] @ moves.e[p, 1] > 0:
            wanted += 0.5 * moves.joint_e[r, 1]
    shift(v, p, 1, moves, others)
    assert v == pytest.approx(wanted)


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_move_is_charged_half_its_products(seed, p):
    """A move is charged half of each positive product, and its error covers the blurs of both vectors."""
    rng, moves, others = made(seed)
    e, blur = rng.normal(size=WIDTH), 2e-3
    among = others[others != p]
    worth, error = charge(5.0, 0.25, e, blur, p, 1, moves, others)
    products = moves.joint_e[among, 1] @ e
    assert worth == pytest.approx(5.0 - 0.5 * np.maximum(products, 0.0).sum())
    long, far, size = moves.norm[among, 1], moves.norm_error[among, 1], np.linalg.norm(e)
    most = 0.25 + 0.5 * (far * size + (long + far) * blur).sum()
    assert most <= error <= 0.25 + 1.03 * (most - 0.25) + 1e3 * UNIT


def test_zero_product_has_rounding():
    """A product of exactly known vectors that is 0 errs by half of d units of the two lengths."""
    _, moves, others = made(0)
    moves.joint_e[..., 2], moves.norm_error[:] = 0.0, 0.0
    moves.norm[:] = np.linalg.norm(moves.joint_e, axis=2)
    worth, error = charge(0.0, 0.0, np.array([0.0, 0.0, 3.0]), 0.0, 3, 1, moves, others)
    least = UNIT * WIDTH / 2 * 3.0 * moves.norm[others, 1].sum()
    assert worth == 0.0
    assert least <= error <= 3.0 * least


@pytest.mark.parametrize("seed", range(6))
def test_single_move_raises_the_dual(seed):
    """A move within the boxes raises the dual by its told gain, to the optimum or the target."""
    _, data, caps, alpha, W, moves = half_assigned(seed)
    n, kept, p, k = len(data.C), caps.copy(), 4, seed % 2
    box = caps[k].copy()
    box[INSIDE + p] = data.C[INSIDE + p]
    a, w = alpha[k].copy(), W[k].copy()
    climb(data, np.zeros(n), box, a, w, 10_000, np.inf, 0.0)
    most = dual_value(a, w) - dual_value(alpha[k], W[k])
    gains = []
    for enough in (np.inf, 0.3 * most):
        gain, error = try_move(data, caps[k], alpha[k], W[k], p, k, moves, enough)
        made = alpha[k] + moves.delta[p, k]
        assert made == pytest.approx(np.clip(made, 0.0, box), abs=1e-15)
        assert moves.e[p, k] == pytest.approx(moves.delta[p, k] @ data.A)
        w = 0.5 * made @ data.A
        assert gain == moves.gain[p, k]
        assert gain == pytest.approx(made.sum() - w @ w - dual_value(alpha[k], W[k]))
        assert 0.0 < error < 1e-12
        gains.append(gain)
    assert 0.9 * most <= gains[0] <= most * (1 + 1e-9)
    assert gains[1] >= 0.3 * most * (1 - 1e-9)
    assert np.array_equal(caps, kept)
    assert W[k] == pytest.approx(0.5 * alpha[k] @ data.A)


@pytest.mark.parametrize("seed", range(6))
def test_joint_moves_add_up(seed):
    """By the theorem each joint move adds the same on every face, within what earlier moves leave."""
    rng, data, caps, alpha, W, moves = half_assigned(seed)
    order, faces = rng.permutation(np.arange(2, NPOS)), range(2)
    allowed = np.ones((NPOS, 2), dtype=bool)
    allowed[order[1], seed % 2] = False
    for p in order:
        for k in faces:
            try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    moves.joint_e[:] = moves.joint_delta[:] = moves.norm[:] = moves.norm_error[:] = np.nan  # of another node
    total = add_up(data, caps, alpha, W, moves, allowed, order, 2, np.inf)
    assert total == pytest.approx(moves.increase[order].sum())
    up, down = caps - alpha - MARGIN * caps, alpha - MARGIN * caps
    for place, p in enumerate(order):
        for k in faces:
            taken, e, own = moves.joint_delta[p, k], moves.joint_e[p, k], np.arange(len(data.C)) == INSIDE + p
            if not allowed[p, k]:
                assert not taken.any()
                assert not e.any()
                assert moves.norm[p, k] == moves.norm_error[p, k] == 0.0
                continue
            assert e == pytest.approx(taken @ data.A, abs=1e-12)
            products = moves.joint_e[order[:place], k] @ e
            worth = taken @ (1.0 - data.A @ W[k]) - e @ e / 4 - np.maximum(products, 0.0).sum() / 2
            assert worth == pytest.approx(moves.increase[p], abs=1e-12)
            assert 1.0 <= moves.norm[p, k] / np.linalg.norm(e) <= 1.02 if e.any() else True
            assert 0.0 <= moves.norm_error[p, k] <= 1e-13
            assert (np.where(own, 0.0, taken) <= np.maximum(up[k], 0.0) + 1e-15).all()
            assert (np.where(own, 0.0, -taken) <= np.maximum(down[k], 0.0) + 1e-15).all()
            assert 0.0 <= taken[INSIDE + p] <= data.C[INSIDE + p]
            up[k] = np.maximum(up[k] - np.where(own, 0.0, np.maximum(taken, 0.0)), 0.0)
            down[k] = np.maximum(down[k] - np.where(own, 0.0, np.maximum(-taken, 0.0)), 0.0)
        assert (0.0 < moves.error[p] <= 1e-13) == (moves.increase[p] > 0)
    assert moves.up == pytest.approx(np.maximum(up, 0.0), abs=1e-14)
    assert moves.down == pytest.approx(np.maximum(down, 0.0), abs=1e-14)
    assert total > 0
    # Once it is enough it ends.
    added = moves.increase.copy()
    moves.increase[:] = -1.0
    assert add_up(data, caps, alpha, W, moves, allowed, order, 2, 0.5 * total) >= 0.5 * total
    done = [p for p in order if moves.increase[p] >= 0]
    assert moves.increase[done] == pytest.approx(added[done])
    assert added[done[:-1]].sum() < 0.5 * total


@pytest.mark.parametrize("seed", range(4))
def test_cost_beside_others_changes_nothing(seed):
    """The last sample costs what it adds to the bound, and computing that leaves all moves as they are."""
    _, data, caps, alpha, W, moves = half_assigned(seed)
    order, allowed = np.arange(2, NPOS), np.ones((NPOS, 2), dtype=bool)
    for p in order:
        for k in range(2):
            try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    add_up(data, caps, alpha, W, moves, allowed, order, 2, np.inf)
    before = {name: part.copy() for name, part in arrays_of(moves)}
    last = order[-1]
    costs = [cost_on(data, alpha[k], W[k], moves, order, last, k) for k in range(2)]
    assert min(cost for cost, _ in costs) == pytest.approx(moves.increase[last])
    assert all(0.0 < error < 1e-12 for _, error in costs)
    for name, part in arrays_of(moves):
        assert np.array_equal(part, before[name]), name


@pytest.mark.parametrize("seed", range(4))
def test_joint_move_has_its_rounding(seed):
    """Blur and error of a joint move are those of its sums, slopes and face, up to a factor of two."""
    _, data, caps, alpha, W, moves = half_assigned(seed)
    n, p, k = len(data.C), 3, seed % 2
    try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    moves.up[k], moves.down[k] = caps[k] - alpha[k], alpha[k]
    change, e = np.empty(n), np.empty(WIDTH)
    nobody = np.empty(0, dtype=np.int64)
    worth, square, blur, error = joint_move(data, alpha[k], W[k], p, k, moves, nobody, change, e)
    slope, lengths, steps = 1.0 - data.A @ W[k], np.sqrt(data.q), np.abs(change)
    assert e == pytest.approx(change @ data.A)
    assert (worth, square) == (pytest.approx(change @ slope), pytest.approx(e @ e))
    least = UNIT * n * (steps @ lengths)
    assert least <= blur <= 1.5 * least
    face = UNIT * (n + 2) / 2 * (alpha[k] @ lengths)  # how far the face itself may be off
    slopes = UNIT * (WIDTH + 2) * (1.0 + np.linalg.norm(W[k]) * lengths) + face * lengths
    least = steps @ slopes + UNIT * n * (steps @ np.abs(slope) + square) + np.linalg.norm(e) * blur / 2
    assert least <= error <= 2.0 * least


@pytest.mark.parametrize(("n", "d", "size"), [(60, 2, 1e-3), (60, 2, 1e3), (6, 40, 1.0), (6, 40, 1e3)])
def test_dual_value_has_its_rounding(n, d, size, rng):
    """The error of a dual value is that of its sum, its square and its face, up to a factor of two."""
    A = size * rng.uniform(1.0, 2.0, (n, 1)) * rng.normal(size=d)
    data = Samples(A, (A * A).sum(axis=1), np.ones(n), n)
    a, w = rng.uniform(0.2, 1.0, n), np.zeros(d)
    hyperplane(data, a, w)
    off = UNIT * n / 2 * (a @ np.sqrt(data.q))
    assert off <= hyperplane_error(data, a) <= 2.0 * off
    least = UNIT * (n * a.sum() + d * (w @ w)) + 2.0 * np.linalg.norm(w) * off
    assert least <= dual_error(data, a, w) <= 2.0 * least
