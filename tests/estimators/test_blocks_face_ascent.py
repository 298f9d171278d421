"""The Convex Polytope Machine on blocks by its dual: programs of a frozen assignment, as those in memory."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.checkpoints import killed_at_save
from sklearn.exceptions import ConvergenceWarning

import polyopt
from formulations.language.solution import Status
from polyopt import Claim, SGDSettings, scale
from polyopt.certificates.tally import merge
from polyopt.cpm import by_blocks as polytopes
from polyopt.cpm import face_ascent_by_blocks as face_ascent
from polyopt.cpm.certificate_by_blocks import (
    AssignedBlock,
    Multipliers,
    certify_multipliers,
    implied_faces,
    reduce_dual,
    reduce_primal,
)

K, C, TOL = 3, 0.7, 1e-5
WEIGHTS = {"in": 2.0, "out": 0.5}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(240, 4)).astype(np.uint8)
    away = np.abs(X / 255.0 - 0.5).sum(axis=1)
    y = np.where(away > 1.0, "out", "in")
    y = np.where(rng.random(240) < 0.05, np.where(y == "out", "in", "out"), y)
    return X, y, rng.uniform(0.0, 2.0, 240).round(1)


@pytest.fixture(scope="module")
def start():
    return np.random.default_rng(1).normal(size=(K, 5))


def machine(**settings):
    given = {
        "n_faces": K, "C": C, "inside_label": "in", "tol": 10.0 * TOL, "solver": "dual",
        "sgd": SGDSettings(feature_scale=1 / 255), "random_state": 0,
    }  # fmt: skip
    return polyopt.ConvexPolytopeMachine(**given | settings)


def quietly(made, source, faces=None, **settings):
    if faces is not None:
        made.begin_from(faces)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return made.fit(source, **settings)


def bits(fitted):
    proof = fitted.certificate()
    return fitted.W_.tobytes(), fitted.b_.tobytes(), proof.primal_value, proof.dual_value, fitted.n_iter_


def assignment(X, faces):
    return (np.asarray(X @ faces[:, :-1].T) + faces[:, -1]).argmax(axis=1)


@pytest.fixture(params=["gathered", "by blocks"])
def way(request, monkeypatch):
    """How passes over pairs that may move are made."""
    if request.param == "by blocks":
        by_blocks = face_ascent.Options(max_gathered_entries=0)
        ascents = partial(face_ascent.FaceAscents, options=by_blocks)
        monkeypatch.setattr(polytopes, "FaceAscents", ascents)
    return request.param


@pytest.mark.parametrize(
    ("store", "class_weight"), [(np.asarray, None), (sp.csr_array, WEIGHTS), (np.float32, WEIGHTS)]
)
def test_for_one_assignment_it_is_the_machine_in_memory(store, class_weight, data, start, way):
    X, y, weights = data
    source = scale.Arrays(store(X), y, weights, rows=37)
    found = quietly(machine(max_iter=1, class_weight=class_weight), source, faces=start)
    used = weights > 0
    whole = polyopt.ConvexPolytopeMachine(
        K, C=C, inside_label="in", solver="exact", class_weight=class_weight
    )
    scaled = X[used] / 255.0
    whole.fit_from(scaled, y[used], assignment(scaled, start), hold=True, sample_weight=weights[used])
    proof, best = found.certificate(), whole.certificate()
    assert proof.relative_gap <= TOL
    assert proof.dual_value <= best.primal_value <= proof.primal_value * (1.0 + 1e-9)
    assert proof.primal_value <= best.dual_value * (1.0 + 2.0 * TOL)
    assert found.decision_function(X) == pytest.approx(whole.decision_function(X / 255.0), abs=0.05)


def test_rounds_end_at_a_point_that_memory_certifies(data, start):
    X, y, _ = data
    found = machine().begin_from(start).fit(scale.Arrays(X, y, rows=50))  # and does not warn
    proof, answer = found.certificate(), found.solution_
    assert answer.status is Status.CONVERGED
    assert found.n_iter_ > 2
    values = [record["objective"] for record in answer.history]
    assert proof.primal_value == pytest.approx(min(values), rel=1e-9)
    assert answer.objective == min(values)
    again = polyopt.certify_cpm(
        X / 255.0, np.where(y == "in", -1.0, 1.0), C, W=answer["W"], tol=TOL,
        assignment=assignment(X / 255.0, answer["held"]),
    )  # fmt: skip
    assert again.primal_value == pytest.approx(proof.primal_value, rel=1e-9)
    assert again.dual_value <= proof.primal_value


def held_block(data, seed=0):
    """A block with an assignment, multipliers, and the faces that they make."""
    X, y, weights = data
    rng, outside = np.random.default_rng(seed), y == "out"
    block = AssignedBlock(X, outside, C * weights, np.where(outside, rng.integers(0, K, len(y)), -1), 1 / 255)
    rows, faces = np.divmod(np.arange(len(y) * K), K)
    caps = np.where(~outside[rows] | (block.assigned[rows] == faces), block.costs[rows], 0.0)
    alpha = rng.uniform(0.0, 1.0, len(rows)) * caps * 0.02
    return block, Multipliers(rows, faces, alpha)


def test_values_are_those_of_the_two_programs_cut_as_it_may_be(data):
    block, given = held_block(data)
    gained = reduce_dual(block, given, K)
    W = implied_faces(gained)
    met = reduce_primal(block, given, W, 1e-7)
    proof = certify_multipliers(gained, met, W, 1e-6)
    X = np.column_stack([block.X / 255.0, np.ones(len(block.X))])
    y = np.where(block.outside, 1.0, -1.0)
    alpha = given.alpha.reshape(-1, K)
    assert W == pytest.approx(0.5 * (alpha * y[:, None]).T @ X, rel=1e-12)
    caps = np.where(block.outside[:, None], block.assigned[:, None] == np.arange(K), 1.0)
    caps = caps * block.costs[:, None]
    paid = caps * np.maximum(0.0, 1.0 - y[:, None] * (X @ W.T))
    assert proof.primal_value == pytest.approx((W**2).sum() + paid.sum(), rel=1e-12)
    assert proof.dual_value == pytest.approx(max(alpha.sum() - (W**2).sum(), 0.0), rel=1e-12)
    cuts = [0, 7, 7, 100, len(X)]  # what blocks say adds up
    parts = []
    for low, high in pairwise(cuts):
        rows, faces, alpha = (each[low * K : high * K] for each in given)
        part = AssignedBlock(*(each[low:high] for each in block[:4]), block.scale)
        parts.append((part, Multipliers(rows - low, faces, alpha)))
    apart = merge(reduce_dual(*part, K) for part in parts)
    assert implied_faces(apart) == pytest.approx(W, rel=1e-12)
    again = merge(reduce_primal(*part, W, 1e-7) for part in parts)
    assert again.sums["loss"].mid == pytest.approx(met.sums["loss"].mid, rel=1e-12)


@pytest.mark.parametrize(
    ("spoil", "condition"),
    [
        (lambda alpha: -alpha, "sign"),
        (lambda alpha: 1000.0 * alpha, "sign"),
        (lambda alpha: 0.9 * alpha, "stationarity"),
    ],
)
def test_multipliers_that_are_spoilt_prove_no_more(spoil, condition, data):
    """The bound stays below the optimum, and the certificate tells what is wrong."""
    X, y, weights = data
    used = weights > 0
    block, given = held_block(data, 1)
    scaled = np.where(used, block.assigned, 0)
    best = polyopt.ConvexPolytopeMachine(K, C=C, inside_label="in", solver="exact")
    best.fit_from(X[used] / 255.0, y[used], scaled[used], hold=True, sample_weight=weights[used])
    W = implied_faces(reduce_dual(block, given, K))
    other = given._replace(alpha=spoil(given.alpha))
    gained, met = reduce_dual(block, other, K), reduce_primal(block, other, W, 1e-7)
    proof = certify_multipliers(gained, met, W, 1e-6)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.dual_value <= best.certificate().primal_value <= proof.primal_value * (1.0 + 1e-9)
    assert any(each.condition == condition and each.relative > 1e-6 for each in proof.residuals)


def test_a_fit_goes_on_from_its_checkpoint_to_the_same_bits(data, start, tmp_path):
    """It is ended, as by a kill, in the first round and in a later one."""
    source, path = scale.Arrays(*data, rows=50), tmp_path / "checkpoint"
    with killed_at_save(np.inf) as saves:
        wanted = bits(quietly(machine(tol=1e-2), source, faces=start, checkpoint=path))
    assert wanted[-1] > 1
    for stop in (2, len(saves) - 1):
        with killed_at_save(stop), pytest.raises(SystemExit):
            quietly(machine(tol=1e-2), source, faces=start, checkpoint=path)
        assert bits(quietly(machine(tol=1e-2), source, resume=path)) == wanted
    with pytest.raises(ValueError, match="of another fit: scale was"):
        machine(solver="exact", sgd=None).fit(source, resume=path)


def test_limits_and_ctrl_c_keep_a_point_with_its_proof(data, start, monkeypatch, way):
    X, y, _ = data
    source = scale.Arrays(X, y, rows=50)
    best = quietly(machine(max_iter=1), source, faces=start).certificate()
    shorts = [quietly(machine(time_limit=1e-3), source, faces=start)]
    shorts.append(quietly(machine(max_iter=1), source, faces=start))
    assert shorts[0].solution_.status is Status.TIME_LIMIT

    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(face_ascent.FaceAscents, "_climb", interrupted)
    shorts.append(quietly(machine(), source, faces=start))
    assert shorts[-1].solution_.status is Status.INTERRUPTED
    for short in shorts:
        assert short.certificate().claim is Claim.SUBOPTIMAL_BY
        assert short.certificate().dual_value <= best.primal_value
        assert best.dual_value <= short.certificate().primal_value


def test_blocks_and_faces_may_be_without_samples(data, start):
    X, y, _ = data
    order = np.argsort(y, kind="stable")
    X, y, cuts = X[order], y[order], [0, 0, 3, 40, 40, 239, 240, 240]
    source = scale.Generated(lambda k: (X[cuts[k] : cuts[k + 1]], y[cuts[k] : cuts[k + 1]]), 7)
    given = np.array(start)
    given[2] = [0.0, 0.0, 0.0, 0.0, -1e6]  # nobody's
    whole = quietly(machine(max_iter=1), scale.Arrays(X, y), faces=given).certificate()
    parts = quietly(machine(max_iter=1), source, faces=given).certificate()
    assert max(whole.relative_gap, parts.relative_gap) <= TOL
    assert parts.dual_value <= whole.primal_value
    assert whole.dual_value <= parts.primal_value


def test_wide_samples_go_by_the_dual(data, start):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300))
    y = np.where(X[:, 0] > 0.3, "out", "in")
    for solver, gap in (("auto", 1e-4), ("exact", 1e-8)):
        chosen = machine(solver=solver, sgd=None, n_faces=1, C=0.01, tol=1e-3)
        wide = quietly(chosen, scale.Arrays(X, y, rows=25))
        assert wide.solver_ == ("exact" if solver == "exact" else "dual")
        assert wide.certificate().relative_gap <= gap
    with pytest.raises(ValueError, match="feature_scale is for solver='dual'"):
        machine(solver="exact").fit(scale.Arrays(*data))
