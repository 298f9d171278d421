"""The Convex Polytope Machine on blocks, face by face and by dual ascent: programs of a frozen assignment."""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.blocks import Breaking, at_records, bits, odd_blocks, quietly, raise_error
from sklearn.exceptions import ConvergenceWarning

from formulations.families import Families, margin_family
from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt import Claim, ConvexPolytopeMachine, SGDSettings, certify_cpm, scale
from polyopt.certificates.certificate import Residual
from polyopt.certificates.tally import merge
from polyopt.cpm.alternating_by_blocks import FaceRecipe, Rounds
from polyopt.cpm.certificate_by_blocks import (
    AssignedBlock,
    Multipliers,
    certify_faces,
    certify_multipliers,
    implied_faces,
    reduce_dual,
    reduce_primal,
)
from polyopt.cpm.face_ascent_by_blocks import FaceAscents, Options
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem
from polyopt.scale.blocks import Pair
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.executor import ThreadExecutor

K, M, C, TOL = 3, 4, 0.7, 1e-5
PAIR = Pair(("in", "out"), (1.0, 1.0), C)
START = np.random.default_rng(1).normal(size=(K, M + 1))


def ball(n=160, seed=0):
    """Bytes: samples around a ball in four dimensions, one in twenty with the other label; weights."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 256, size=(n, M)).astype(np.uint8)
    y = np.where(np.abs(X / 255.0 - 0.5).sum(axis=1) > 1.0, "out", "in")
    y = np.where(rng.random(n) < 0.05, np.where(y == "out", "in", "out"), y)
    return X, y, rng.uniform(0.0, 2.0, n).round(1)


X, Y, WEIGHTS = ball()
UNIT = X / 255.0
SIGNS = np.where(Y == "in", -1.0, 1.0)
LIFTED = np.column_stack([UNIT, np.ones(len(X))])
SAMPLES = {"exact": UNIT, "dual": X}  # the dual ascent scales bytes by itself
by_solver = pytest.mark.parametrize("solver", SAMPLES)


def machine(solver, **settings):
    by_solver = {"tol": 10.0 * TOL, "sgd": SGDSettings(feature_scale=1 / 255)} if solver == "dual" else {}
    given = {"n_faces": K, "C": C, "inside_label": "in", "random_state": 0, "solver": solver}
    return ConvexPolytopeMachine(**given | by_solver | settings)


def source_of(solver, rows=50):
    return scale.Arrays(SAMPLES[solver], Y, rows=rows)


def assigned_by(faces, samples=LIFTED):
    return (samples @ faces.T).argmax(axis=1)


def in_memory(assignment, **settings):
    """The machine of an assignment in memory, by its explicit program."""
    weights = settings.pop("sample_weight", np.ones(len(X)))
    used = weights > 0
    whole = ConvexPolytopeMachine(K, C=C, inside_label="in", solver="exact", **settings)
    return whole.fit_from(UNIT[used], Y[used], assignment[used], hold=True, sample_weight=weights[used])


@cache
def best_for_start():
    """The certificate in memory of the assignment by START."""
    return in_memory(assigned_by(START)).certificate()


# -- programs of an assignment -----------------------------------------------------------------

STORES = {
    "array": (np.asarray, None),
    "CSR": (sp.csr_array, {"in": 2.0, "out": 0.5}),
    "float32": (np.float32, {"in": 2.0, "out": 0.5}),
}


@by_solver
@pytest.mark.parametrize(("store", "class_weight"), STORES.values(), ids=STORES)
def test_assignment_has_the_optimum_of_memory(solver, store, class_weight):
    """A round solves the programs of its assignment, weights of 0 left out."""
    source = scale.Arrays(store(SAMPLES[solver]), Y, WEIGHTS, rows=37)
    made = machine(solver, max_iter=1, class_weight=class_weight).begin_from(START)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        found = made.fit(source)
    whole = in_memory(assigned_by(START), class_weight=class_weight, sample_weight=WEIGHTS)
    proof, best = found.certificate(), whole.certificate()
    room = 1e-6 if store is np.float32 else 1e-8
    assert found.solution_["held"].tobytes() == START.tobytes()
    assert proof.relative_gap <= (TOL if solver == "dual" else room)
    assert proof.dual_value <= best.primal_value * (1.0 + room)
    assert best.dual_value <= proof.primal_value * (1.0 + room)
    assert found.solution_.objective == pytest.approx(proof.primal_value, rel=1e-9)
    scores = found.face_scores(SAMPLES[solver])
    assert scores == pytest.approx(whole.face_scores(UNIT), abs=0.05 if solver == "dual" else 1e-3)
    assert np.array_equal(found.decision_function(SAMPLES[solver]), scores.max(axis=1))


def test_sweeps_by_blocks_have_the_optimum():
    """If the rows that may move are too many to be gathered, sweeps over blocks prove the same optimum."""
    executor = ThreadExecutor(source_of("dual"))
    ascents = FaceAscents(executor, PAIR, K, M, scale=1 / 255, options=Options(max_gathered_entries=0))
    save = Checkpoint(None, None, executor, PAIR)
    rounds = Rounds(executor, PAIR, Clock(), save, ascents, tol=TOL, max_rounds=1, min_decrease=0.0)
    proof = rounds.run(START)[1]
    assert proof.relative_gap <= TOL
    assert proof.dual_value <= best_for_start().primal_value
    assert best_for_start().dual_value <= proof.primal_value


@by_solver
def test_face_without_samples(solver):
    """A face that no sample is assigned to, and blocks that are empty or of one class, change no bound."""
    start = np.vstack([START[:2], [0.0] * M + [-1e6]])
    sources = source_of(solver), odd_blocks(SAMPLES[solver], Y)
    fits = [quietly(machine(solver, max_iter=1).begin_from(start), source) for source in sources]
    whole, parts = (each.certificate() for each in fits)
    assert max(whole.relative_gap, parts.relative_gap) <= TOL
    assert parts.dual_value <= whole.primal_value
    assert whole.dual_value <= parts.primal_value


# -- rounds ------------------------------------------------------------------------------------


@by_solver
def test_rounds_end_at_certified_point(solver):
    """Objectives fall from round to round, to a point that the certificate in memory proves as well."""
    settings = {"tol": 1e-9} if solver == "exact" else {}
    found = machine(solver, **settings).begin_from(START).fit(source_of(solver))  # and does not warn
    proof, answer = found.certificate(), found.solution_
    values = [record["objective"] for record in answer.history]
    assert answer.status is Status.CONVERGED
    assert len(values) == found.n_iter_ > 2
    assert answer.objective == min(values) == pytest.approx(proof.primal_value, rel=1e-9)
    again = certify_cpm(
        UNIT, SIGNS, C, W=answer["W"], assignment=assigned_by(answer["held"]), tol=TOL, max_iter=20_000
    )
    assert again.primal_value == pytest.approx(proof.primal_value, rel=1e-9)
    assert again.dual_value <= proof.primal_value
    if solver == "exact":
        assert proof.claim is Claim.STATIONARY
        assert all(later < before for before, later in pairwise(values))


def test_pilot_leads_near_optimum_of_memory():
    """The pilot and the passes lead to faces about as good as those of the machine in memory."""
    found = machine("exact").fit(scale.Arrays(UNIT, Y, WEIGHTS, rows=50))
    best = ConvexPolytopeMachine(K, C=C, inside_label="in", random_state=0).fit(UNIT, Y, WEIGHTS)
    assert found.certificate().claim is Claim.STATIONARY
    assert found.certificate().primal_value <= 1.1 * best.certificate().primal_value
    inside = found.decision_function(UNIT) <= 0.0
    assert found.predict(UNIT).tolist() == np.where(inside, "in", "out").tolist()
    assert found.polytope_.contains(UNIT).tolist() == inside.tolist()


def test_either_class_is_inside():
    """The other class inside is the same as swapped labels."""
    flipped = machine("exact", inside_label="out").fit(scale.Arrays(UNIT, Y))
    turned = machine("exact").fit(scale.Arrays(UNIT, np.where(Y == "in", "out", "in")))
    assert bits(flipped) == bits(turned)
    assert np.array_equal(flipped.predict(UNIT) == "in", turned.predict(UNIT) == "out")


def test_assignment_that_would_be_left_is_told():
    """After one round the residual of the assignment is the worst; a loose tolerance has a note."""
    source = source_of("exact")
    short = quietly(machine("exact", max_iter=1).begin_from(START), source)
    assert short.solution_.status is Status.ITERATION_LIMIT
    assert short.certificate().claim is Claim.SUBOPTIMAL_BY
    assert short.certificate().worst.row == "assignment"
    assert short.certificate().relative_gap < 1e-7
    settled = machine("exact", tol=0.9).begin_from(START).fit(source)  # and does not warn
    assert settled.solution_.status is Status.CONVERGED
    assert "Alternation ended with a round" in settled.certificate().note


def test_wide_samples_go_by_dual_ascent():
    """Above 256 features "auto" is the dual ascent."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(60, 300))
    source = scale.Arrays(wide, np.where(wide[:, 0] > 0.3, "out", "in"), rows=25)
    found = quietly(machine("auto", n_faces=1, C=0.01, tol=1e-3), source)
    assert found.solver_ == "dual"
    assert found.certificate().relative_gap <= 1e-4


# -- limits and interruptions ------------------------------------------------------------------


@by_solver
def test_time_limit_keeps_proven_faces(solver):
    """Over at once, the fit has the faces that it began from, with a true bound."""
    found = quietly(machine(solver, time_limit=1e-9).begin_from(START), source_of(solver))
    proof = found.certificate()
    assert found.solution_.status is Status.TIME_LIMIT
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.dual_value <= best_for_start().primal_value
    assert best_for_start().dual_value <= proof.primal_value


def assert_interrupted(found):
    """The faces have a true bound of the assignment that they are certified for."""
    assert found.solution_.status is Status.INTERRUPTED
    proof, best = found.certificate(), in_memory(assigned_by(found.solution_["held"])).certificate()
    assert proof.dual_value <= best.primal_value * (1.0 + 1e-9)
    assert best.dual_value <= proof.primal_value * (1.0 + 1e-9)


@by_solver
@pytest.mark.parametrize("record", [2, 8, 40])
def test_ctrl_c_in_round_keeps_proven_faces(solver, record):
    """Ctrl-C in the first round or a later one leaves the best faces with a true bound."""
    with at_records({record: partial(raise_error, KeyboardInterrupt)}) as told:
        found = quietly(machine(solver).begin_from(START), source_of(solver))
    if len(told) >= record:
        assert_interrupted(found)


@by_solver
def test_ctrl_c_in_pass_keeps_proven_faces(solver, tmp_path):
    """Ctrl-C as a pass reads its blocks leaves the faces of the passes before."""
    interrupt = partial(raise_error, KeyboardInterrupt)
    found = quietly(machine(solver), Breaking(source_of(solver), tmp_path / "log", {4}, interrupt))
    assert_interrupted(found)
    assert found.solution_["held"].any()


# -- certificates ------------------------------------------------------------------------------

NONE = Residual("stationarity", "assignment", 0.0, 0.0)


def halves(moved=0.0, steps=None):
    """The certificates of halves of the faces' programs for START, at points after some steps, moved."""
    executor, found = ThreadExecutor(source_of("exact")), []
    for face in range(K):
        crew = executor.crew(FaceRecipe(PAIR, START, face))
        answer = solve_problem(state_problem(crew, 1, None, intercept=False), 1e-9, steps, Clock(None))
        v = np.append(answer["w"], answer["b"]) + moved
        rows = Families(margin_family(np.array([1.0, -1.0]), np.full(2, 0.5 * C)))
        ask = lambda *step, crew=crew: crew.ask("prove", *step)  # noqa: E731
        found.append(certify_blocks("half", ask, rows, v=v, b=0.0, centre=None, intercept=False))
    return found


@pytest.mark.parametrize(
    ("moved", "residual", "claim"),
    [
        (0.0, NONE, Claim.STATIONARY),
        (1e-4, NONE, Claim.SUBOPTIMAL_BY),
        (1e-2, NONE, Claim.SUBOPTIMAL_BY),
        (0.0, Residual("stationarity", "assignment", 0.3, 0.3, 7), Claim.SUBOPTIMAL_BY),
    ],
    ids=["solved", "moved a little", "moved", "reassigned"],
)
def test_moved_faces_are_not_stationary(moved, residual, claim):
    """Faces that are moved, or whose assignment would be left, are within a stated amount alone."""
    proof = certify_faces(halves(moved), residual, 1e-6)
    assert proof.claim is claim
    assert (proof.worst.relative > 1e-6) == (claim is not Claim.STATIONARY)
    assert best_for_start().dual_value <= proof.primal_value * (1.0 + 1e-9)


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_bound_is_true_for_any_multipliers(steps):
    """The multipliers after a few steps prove a bound below the optimum."""
    proof = certify_faces(halves(steps=steps), NONE, 1e-6)
    assert 0.0 <= proof.dual_value <= best_for_start().primal_value
    assert best_for_start().dual_value <= proof.primal_value
    assert steps == 1 or proof.dual_value > 0.0


def held_block(seed=0):
    """A block with an assignment, and multipliers within their caps."""
    rng, outside = np.random.default_rng(seed), Y == "out"
    assigned = np.where(outside, rng.integers(0, K, len(Y)), -1)
    block = AssignedBlock(X, outside, C * WEIGHTS, assigned, 1 / 255)
    rows, faces = np.divmod(np.arange(len(Y) * K), K)
    caps = np.where(~outside[rows] | (assigned[rows] == faces), block.costs[rows], 0.0)
    alpha = rng.uniform(0.0, 1.0, len(rows)) * caps * 0.02
    return block, Multipliers(rows, faces, alpha)


def test_certificate_has_values_of_both_programs():
    """Primal and dual value follow from their formulas, and add up over any cut into blocks."""
    block, given = held_block()
    gained = reduce_dual(block, given, K)
    W = implied_faces(gained)
    met = reduce_primal(block, given, W, 1e-7)
    proof = certify_multipliers(gained, met, W, 1e-6)
    y, alpha = np.where(block.outside, 1.0, -1.0), given.alpha.reshape(-1, K)
    assert W == pytest.approx(0.5 * (alpha * y[:, None]).T @ LIFTED, rel=1e-12)
    caps = np.where(block.outside[:, None], block.assigned[:, None] == np.arange(K), 1.0)
    paid = caps * block.costs[:, None] * np.maximum(0.0, 1.0 - y[:, None] * (LIFTED @ W.T))
    assert proof.primal_value == pytest.approx((W**2).sum() + paid.sum(), rel=1e-12)
    assert proof.dual_value == pytest.approx(max(alpha.sum() - (W**2).sum(), 0.0), rel=1e-12)
    parts = []
    for low, high in pairwise([0, 7, 7, 100, len(X)]):
        rows, faces, alpha = (each[low * K : high * K] for each in given)
        part = AssignedBlock(*(each[low:high] for each in block[:4]), block.scale)
        parts.append((part, Multipliers(rows - low, faces, alpha)))
    assert implied_faces(merge(reduce_dual(*part, K) for part in parts)) == pytest.approx(W, rel=1e-12)
    again = merge(reduce_primal(*part, W, 1e-7) for part in parts)
    assert again.sums["loss"].mid == pytest.approx(met.sums["loss"].mid, rel=1e-12)


SPOILT = {"negative": (-1.0, "sign"), "above caps": (1000.0, "sign"), "shrunk": (0.9, "stationarity")}


@pytest.mark.parametrize(("factor", "condition"), SPOILT.values(), ids=SPOILT)
def test_spoilt_multipliers_prove_no_more(factor, condition):
    """The bound of multipliers times a factor is true, and a residual tells what is wrong."""
    block, given = held_block(1)
    best = in_memory(np.maximum(block.assigned, 0), sample_weight=WEIGHTS).certificate()
    W = implied_faces(reduce_dual(block, given, K))
    other = given._replace(alpha=factor * given.alpha)
    gained, met = reduce_dual(block, other, K), reduce_primal(block, other, W, 1e-7)
    proof = certify_multipliers(gained, met, W, 1e-6)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.dual_value <= best.primal_value <= proof.primal_value * (1.0 + 1e-9)
    assert any(each.condition == condition and each.relative > 1e-6 for each in proof.residuals)


# -- refused -----------------------------------------------------------------------------------

REFUSED = {
    "other class": ({"inside_label": "no"}, None, None, r"inside_label must be one of \['in', 'out'\]"),
    "three classes": ({}, np.arange(len(Y)) % 3, None, "needs two classes, but there are 3"),
    "faces for three classes": (
        {"inside_label": None}, np.arange(len(Y)) % 3, START, "begin_from needs two classes",
    ),
    "few faces": ({}, None, START[:2], r"of shape \(3, 5\), not \(2, 5\)"),
    "NaN in faces": ({}, None, np.full((K, M + 1), np.nan), "faces"),
    "n_faces": ({"n_faces": 0}, None, None, "n_faces must be"),
    "feature_scale": ({"sgd": SGDSettings(feature_scale=0.5)}, None, None, "is for solver='dual'"),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "labels", "faces", "sentence"), REFUSED.values(), ids=REFUSED)
def test_unusable_setting_is_named(settings, labels, faces, sentence):
    """A setting that does not fit the samples is refused by its name."""
    made, source = machine("exact", **settings), scale.Arrays(UNIT, Y if labels is None else labels)
    with pytest.raises(ValueError, match=sentence):
        (made if faces is None else made.begin_from(faces)).fit(source)


def test_large_entries_are_refused():
    """Entries whose squares leave double precision are refused."""
    with pytest.raises(ValueError, match="X must have entries of at most 1e"):
        machine("exact").fit(scale.Arrays(1e150 * UNIT, Y))


def test_pairs_have_no_single_polytope():
    """Three classes have a polytope for each pair, and none of all."""
    three = np.where(UNIT[:, 0] > 0.7, "right", Y)
    found = quietly(ConvexPolytopeMachine(2, random_state=0), scale.Arrays(UNIT, three, rows=50))
    assert [part.W_.shape for part in found.estimators_] == [(2, M)] * 3
    assert found.score(UNIT, three) > 0.6
    with pytest.raises(AttributeError, match="polytope_ needs a machine of one polytope"):
        found.polytope_  # noqa: B018
