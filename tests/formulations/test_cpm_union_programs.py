"""The union of polytopes for fixed assignments: its dual, its parts, its least, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers.cases import in_turn

from formulations import cpm, cpm_union
from formulations.polytope import lift
from formulations.printed import misprints
from formulations.samples import two_blobs
from formulations.union import (
    best_faces,
    best_pieces,
    check_pieces,
    union_answers,
    union_objective,
    union_scores,
)

PIECES = np.array([0, 0, 1, 1, 1])


def drawn(seed=0, n=24):
    X, y = two_blobs(n=n, seed=seed)
    W = np.random.default_rng(seed).normal(size=(len(PIECES), X.shape[1] + 1))
    outputs = lift(X) @ W.T
    return X, y, W, best_pieces(outputs, PIECES), best_faces(outputs, PIECES)


def test_primal_and_dual_meet_and_the_print_is_what_is_computed():
    for pair in cpm_union.pairs(seed=3):
        primal, dual = pair.primal.solve(), pair.dual.solve()
        assert primal.objective == pytest.approx(dual.objective, rel=1e-7)
        recovered = pair.recover(dual.primal)
        assert pair.primal.value(recovered) == pytest.approx(primal.objective, rel=1e-6)
        assert misprints(pair.primal) == misprints(pair.dual) == []


def test_the_objective_is_the_least_over_all_assignments():
    """J(W) against every assignment, one by one; and scores against their definition, sample by sample."""
    X, y, W, inside, outside = drawn()
    costs = np.linspace(0.5, 2.0, len(y))
    outputs = lift(X) @ W.T
    hinge = np.maximum(0.0, 1.0 - y[:, None] * outputs)
    faces = [np.flatnonzero(d == PIECES) for d in range(2)]
    total = (W**2).sum()
    for i, label in enumerate(y):
        ways = (
            [hinge[i, own].sum() for own in faces]
            if label < 0
            else [hinge[i, list(chosen)].sum() for chosen in product(*faces)]
        )
        total += costs[i] * min(ways)
    assert union_objective(X, y, W, PIECES, costs) == pytest.approx(total, rel=1e-12)
    program = cpm_union.fixed_assignment(X, y, PIECES, inside, outside, costs)
    assert program.value({"W": W, "xi": hinge}) == pytest.approx(total, rel=1e-12)
    by_hand = [min(max(row[k] for k in own) for own in faces) for row in outputs]
    assert union_scores(outputs, PIECES) == pytest.approx(by_hand)


def test_one_piece_is_the_convex_polytope_machine():
    X, y, _, _, outside = drawn(1)
    faces = np.minimum(outside[:, :1], 1)
    inside = np.zeros(len(y), dtype=int)
    union = cpm_union.fixed_assignment(X, y, [0, 0], inside, faces, 0.7).solve()
    machine = cpm.fixed_assignment(X, y, 2, faces[:, 0], 0.7).solve()
    assert union.objective == pytest.approx(machine.objective, rel=1e-7)
    assert union["W"] == pytest.approx(machine["W"], abs=1e-4)


def test_the_assignments_can_be_changed():
    X, y, _, inside, outside = drawn(2)
    program = cpm_union.fixed_assignment(X, y, PIECES, inside, outside)
    other = 1 - inside
    changed = program.set(Z=union_answers(y, PIECES, other, outside)).solve().objective
    anew = cpm_union.fixed_assignment(X, y, PIECES, other, outside).solve().objective
    assert changed == pytest.approx(anew, rel=1e-8)


@in_turn("pieces", [[], [1], [0, 2], [0, 1, 0], [0.0, 1.0], [[0, 1]], [-1, 0], "01"])
def test_pieces_that_are_none_are_refused(pieces):
    with pytest.raises(ValueError, match="pieces must say the piece of each face"):
        check_pieces(pieces)


def test_assignments_that_are_none_are_refused():
    _, y, _, inside, outside = drawn()
    wrong = outside.copy()
    wrong[y > 0, 0] = 4  # a face of the other piece
    far = np.where(y < 0, 2, inside)
    for given, text in [
        ((inside[:-1], outside), "inside must have shape"),
        ((inside, outside[:, :1]), "inside must have shape"),
        ((far, outside), "inside must be from 0 to 1"),
        ((inside, wrong), "a face of each piece"),
        ((inside, np.full(outside.shape, np.nan)), "a face of each piece"),
        ((inside, outside + 0.5), "a face of each piece"),
    ]:
        with pytest.raises(ValueError, match=text):
            union_answers(y, PIECES, *given)
