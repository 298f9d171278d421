"""The pass over the columns gives what a product gives, whatever a matrix's type, order and place."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from polyopt.answers.cells import KINDS, cells_of_columns, cells_of_matrix, is_readable
from polyopt.answers.form import Form
from polyopt.answers.plan import NotANumberError, Plan, plan_of_faces
from polyopt.answers.sigmoid import sigmoid, two_classes
from polyopt.answers.weighed import Bend, Curve

FORMS = (
    Form(1.0, (0,), (1.0,)),
    Form(-1.0, (0,), (-1.0,)),
    Form(1.0, (0, 2), (-1.0, 1.0)),
    Form(1.0, (0, 1, 3), (-1.0, -1.0, -1.0), is_least=True),
    Form(1.0, (), ()),
)


def faces(m, K=5, share=0.6):
    rng = np.random.default_rng(m)
    return rng.normal(size=(K, m)) * (rng.random((K, m)) < share), rng.normal(size=K)


def by_hand(S, form):
    """The score of one sample after the other, as the form's words have it."""
    ends = [*form.starts[1:], S.shape[1]]
    best = [(form.flip * S[:, a:b]).max(axis=1) for a, b in zip(form.starts, ends, strict=False)]
    if form.is_least:
        return form.signs[0] * np.min(best, axis=0)
    return sum((sign * own for sign, own in zip(form.signs, best, strict=True)), np.zeros(len(S)))


def test_scores_are_those_of_a_product():
    for (n, m, K), form in product([(1, 1, 5), (127, 3, 5), (128, 7, 5), (300, 20, 5), (50, 3, 70)], FORMS):
        X = np.random.default_rng(n).normal(size=(n, m))
        W, b = faces(m, K)
        plan = plan_of_faces(W, b, form)
        cells = cells_of_matrix(X, plan.places)
        assert np.allclose(plan.scores(cells), by_hand(X @ W.T + b, form), rtol=1e-13, atol=1e-13)
        assert np.allclose(form.score(X @ W.T + b), by_hand(X @ W.T + b, form), rtol=1e-13, atol=1e-13)
        assert np.allclose(plan.outputs(cells), X @ W.T + b, rtol=1e-13, atol=1e-13)


def test_every_type_and_order_is_read_where_it_lies():
    whole = np.random.default_rng(0).integers(0, 100, (260, 12))
    W, b = faces(6)
    plan = plan_of_faces(W, b, FORMS[2])
    for kind in (*KINDS, bool):
        base = whole.astype(kind)
        for X in (base[:, :6], np.asfortranarray(base)[:, 6:], base[::2, ::2], base.T[:6, :].T):
            assert is_readable(X)
            cells = cells_of_matrix(X, plan.places)
            assert cells.held is X
            assert np.allclose(plan.scores(cells), by_hand(X @ W.T + b, FORMS[2]), rtol=1e-13)
            columns = cells_of_columns([X[:, j] for j in range(6)], len(X))
            assert np.array_equal(plan.scores(columns), plan.scores(cells))


def test_other_matrices_are_copied_and_right():
    X = np.random.default_rng(1).normal(size=(200, 6))
    packed = np.zeros(200, dtype=[("byte", "i1"), ("x", "f8", 6)])
    packed["x"] = X
    W, b = faces(6)
    plan = plan_of_faces(W, b, FORMS[2])
    expected = by_hand(X @ W.T + b, FORMS[2])
    for same in (X.astype(">f8"), X[::-1][::-1], packed["x"], X.astype(np.longdouble)):
        assert np.allclose(plan.scores(cells_of_matrix(same, plan.places)), expected, rtol=1e-13)
    backwards = cells_of_matrix(X[::-1], plan.places)
    assert np.allclose(plan.scores(backwards), expected[::-1], rtol=1e-13)
    one = np.broadcast_to(X[0], (50, 6))
    assert np.allclose(plan.scores(cells_of_matrix(one, plan.places)), expected[0], rtol=1e-13)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_found_in_any_column(wrong):
    W, b = faces(4)
    W[:, 2] = 0.0
    plan = plan_of_faces(W, b, FORMS[0])
    for row, column in ((0, 0), (129, 2), (299, 3)):
        X = np.ones((300, 4))
        X[row, column] = wrong
        with pytest.raises(NotANumberError) as caught:
            plan.scores(cells_of_matrix(X, plan.places))
        assert caught.value.column == column


def test_large_finite_numbers_are_numbers():
    plan = plan_of_faces(np.array([[1e-300, 0.0]]), np.zeros(1), FORMS[0])
    X = np.array([[1e300, -1.7e308], [-1e300, 1.7e308]])
    assert np.allclose(plan.scores(cells_of_matrix(X, plan.places)), [1.0, -1.0])


def test_gaps_and_texts_add_what_they_count():
    rng = np.random.default_rng(2)
    n, K = 500, 3
    x, codes = rng.normal(1e9, 1.0, n), rng.integers(-1, 4, n).astype(np.int8)
    x[rng.random(n) < 0.3] = np.nan
    w, gap, table, b = rng.normal(size=K), rng.normal(size=K), rng.normal(size=(3, K)), rng.normal(size=K)
    table[:, 1] = 0.0
    level_of_code = np.array([0, 2, 1, 1, 0])  # of the codes -1 to 3
    places = np.array([5, 9])
    plan = Plan(places, np.array([1e9, 0.0]), np.array([w, 0 * w]), {0: gap}, {1: table}, b, FORMS[0])
    found = plan.outputs(cells_of_columns([x, codes], n), (level_of_code, np.array([0, 0, 5])))
    number = np.where(np.isnan(x)[:, None], gap, np.outer(np.nan_to_num(x, nan=1e9) - 1e9, w))
    assert np.allclose(found, number + table[level_of_code[codes + 1]] + b, rtol=1e-14, atol=1e-14)
    x[7] = np.inf
    with pytest.raises(NotANumberError) as caught:
        plan.scores(cells_of_columns([x, codes], n), (level_of_code, np.array([0, 0, 5])))
    assert caught.value.column == 5


def test_bends_add_what_they_do_by_hand_and_gaps_are_none_of_theirs():
    rng = np.random.default_rng(4)
    n, K = 300, 3
    x, z = rng.normal(5.0, 1.0, n), rng.normal(size=n)
    x[::5] = np.nan
    w, gap, b = rng.normal(size=(2, K)), rng.normal(size=K), rng.normal(size=K)
    knots, changes = np.array([-1.0, 0.3]), rng.normal(size=(2, K))
    changes[0, 1] = 0.0
    bends = {0: Bend(knots, changes), 1: Bend(knots[:1], changes[:1])}
    plan = Plan(np.arange(2), np.array([5.0, 0.0]), w, {0: gap}, {}, b, FORMS[0], bends)
    found = plan.outputs(cells_of_columns([x, z], n))
    u = x - 5.0
    first = np.outer(u, w[0]) + np.maximum(u[:, None] - knots, 0.0) @ changes
    second = np.outer(z, w[1]) + np.outer(np.maximum(z + 1.0, 0.0), changes[0])
    assert np.allclose(found, np.where(np.isnan(x)[:, None], gap, first) + second + b, rtol=1e-13, atol=1e-13)
    curve = Curve(np.array([-0.7, -0.1, 0.4]), np.array([-1.0, 0.5, 2.0]))
    curved = replace(plan, curves={0: curve}).outputs(cells_of_columns([x, z], n))
    u = np.interp(x - 5.0, curve.knots, curve.levels)
    first = np.outer(u, w[0]) + np.maximum(u[:, None] - knots, 0.0) @ changes
    known = np.where(np.isnan(x)[:, None], gap, first) + second + b
    assert np.allclose(curved, known, rtol=1e-13, atol=1e-13)


def test_curves_and_hinges_of_more_columns_than_a_block_holds():
    rng = np.random.default_rng(5)
    n, m, K = 270, 23, 4
    X = rng.normal(size=(n, m))
    weights, b = rng.normal(size=(m, K)) * (rng.random((m, K)) < 0.5), rng.normal(size=K)
    counts = [0, 1, 5, 20, 3] * 5  # 20 knots alone are more than a block
    bends = {
        p: Bend(np.sort(rng.normal(size=c)), rng.normal(size=(c, K)) * (rng.random((c, K)) < 0.7))
        for p, c in zip(range(m), counts, strict=False)
        if c
    }
    pieces = {p: 2 + p for p in range(0, m, 3)}  # 1 to 22 pieces, in steps of six
    curves = {p: Curve(np.sort(rng.normal(size=c)), np.cumsum(rng.random(c))) for p, c in pieces.items()}
    plan = Plan(np.arange(m), np.zeros(m), weights, {}, {}, b, FORMS[2], bends, curves)
    known = np.tile(b, (n, 1))
    for p in range(m):
        u = np.interp(X[:, p], curves[p].knots, curves[p].levels) if p in curves else X[:, p]
        known += np.outer(u, weights[p])
        if p in bends:
            known += np.maximum(u[:, None] - bends[p].knots, 0.0) @ bends[p].changes
    assert np.allclose(plan.outputs(cells_of_matrix(X, plan.places)), known, rtol=1e-12, atol=1e-10)
    assert np.allclose(plan.scores(cells_of_matrix(X, plan.places)), by_hand(known, FORMS[2]), atol=1e-10)
    X[269, 22] = np.nan
    with pytest.raises(NotANumberError) as caught:
        plan.scores(cells_of_matrix(X, plan.places))
    assert caught.value.column == 22


def test_a_curve_over_many_powers_of_ten_keeps_its_digits():
    knots = np.array([1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9])
    levels = np.arange(-3.0, 4.0)
    x = np.concatenate([10.0 ** np.linspace(-10, 10, 999), [0.0, -1e300, 1e300]])
    plan = Plan(np.arange(1), knots[:1], np.ones((1, 1)), {}, {}, np.zeros(1), FORMS[0],
                curves={0: Curve(knots - knots[0], levels)})  # fmt: skip
    assert np.allclose(plan.scores(cells_of_columns([x], len(x))), np.interp(x, knots, levels), atol=1e-13)


def test_parts_of_the_rows_are_put_together():
    X = np.random.default_rng(3).normal(size=(70_000, 2))
    W, b = faces(2)
    plan = plan_of_faces(W, b, FORMS[2])
    assert np.allclose(
        plan.scores(cells_of_matrix(X, plan.places)), by_hand(X @ W.T + b, FORMS[2]), atol=1e-13
    )


def test_the_logistic_function_is_scipys():
    z = np.concatenate([np.linspace(-699, 699, 5001), np.linspace(-1, 1, 1001), [0.0, 1e-300]])
    assert np.allclose(sigmoid(z), expit(z), rtol=1e-15, atol=0.0)
    assert sigmoid(np.zeros(1))[0] == 0.5
    assert np.allclose(sigmoid(np.array([-1e308, 1e308])), [0.0, 1.0], atol=1e-300)


def test_probabilities_of_both_classes_are_on_the_side_of_the_label():
    z = np.concatenate(
        [np.linspace(-60, 60, 300), [0.0, -0.0, 1e-300, -1e-300, 1e308, -1e308, np.inf, -np.inf]]
    )
    for slope in (1.0, 1e-8, 30.0):
        p = two_classes(z, slope)
        with np.errstate(over="ignore"):
            assert np.allclose(p[:, 1], expit(slope * z), rtol=1e-14, atol=1e-300)
        assert np.array_equal(p[:, 0], 1.0 - p[:, 1])
        assert np.array_equal(p.argmax(axis=1) == 1, z > 0)
    assert np.isnan(two_classes(np.array([np.nan]), 1.0)).all()
