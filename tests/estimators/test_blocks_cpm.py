"""The Convex Polytope Machine on blocks: programs of a frozen assignment, as those in memory."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.checkpoints import killed_at_save
from sklearn.exceptions import ConvergenceWarning

import polyopt
from formulations import cpm
from formulations.families import Families, margin_family
from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt import Claim, ConvexPolytopeMachine, scale
from polyopt.certificates.certificate import Residual
from polyopt.cpm import sgd_by_blocks
from polyopt.cpm.alternating_by_blocks import FaceRecipe
from polyopt.cpm.certificate_by_blocks import certify_faces
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem
from polyopt.scale.blocks import Pair
from polyopt.scale.checkpoint import load
from polyopt.scale.executor import ThreadExecutor

K = 3
WEIGHTS = {"in": 2.0, "out": 0.5}
NONE = Residual("stationarity", "assignment", 0.0, 0.0)


def ball(n=240, m=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    y = np.where((X**2).sum(axis=1) > 2.2, "out", "in")
    y = np.where(rng.random(n) < 0.05, np.where(y == "out", "in", "out"), y)
    return X, y, rng.uniform(0.0, 2.0, n).round(1)


@pytest.fixture(scope="module")
def data():
    return ball()


@pytest.fixture(scope="module")
def start():
    return np.random.default_rng(1).normal(size=(K, 4))


def machine(**settings):
    given = {"n_faces": K, "C": 0.7, "inside_label": "in", "random_state": 0, **settings}
    return ConvexPolytopeMachine(**given)


def bits(fitted):
    proof = fitted.certificate()
    return fitted.W_.tobytes(), fitted.b_.tobytes(), proof.primal_value, proof.dual_value, fitted.n_iter_


def assignment(X, faces):
    return (np.asarray(X @ faces[:, :-1].T) + faces[:, -1]).argmax(axis=1)


@pytest.mark.parametrize(
    ("store", "class_weight"), [(np.asarray, None), (sp.csr_array, WEIGHTS), (np.float32, WEIGHTS)]
)
def test_for_one_assignment_it_is_the_machine_in_memory(store, class_weight, data, start):
    X, y, weights = data
    X = store(np.round(X, 2))
    parts = machine(max_iter=1, class_weight=class_weight).begin_from(start)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        parts.fit(scale.Arrays(X, y, weights, rows=37))
    used = weights > 0
    held = polyopt.ConvexPolytopeMachine(
        K, C=0.7, inside_label="in", solver="exact", class_weight=class_weight
    )
    held.fit_from(X[used], y[used], assignment(X[used], start), hold=True, sample_weight=weights[used])
    found, proof = parts.solution_, parts.certificate()
    assert found["held"].tobytes() == start.tobytes()
    assert found.objective == pytest.approx(held.solution_.objective, rel=1e-8)
    assert proof.primal_value == pytest.approx(held.certificate().primal_value, rel=1e-8)
    assert proof.dual_value == pytest.approx(held.certificate().dual_value, rel=1e-8)
    assert parts.W_ == pytest.approx(held.W_, abs=1e-4)
    assert parts.face_scores(X) == pytest.approx(held.face_scores(X), abs=1e-3)


def test_rounds_fall_to_a_fixed_point_that_memory_certifies_too(data, start):
    X, y, _ = data
    found = machine(tol=1e-9).begin_from(start).fit(scale.Arrays(X, y, rows=50))
    proof, answer = found.certificate(), found.solution_
    assert proof.claim is Claim.STATIONARY
    assert answer.status is Status.CONVERGED
    values = [record["objective"] for record in answer.history]
    assert len(values) == found.n_iter_ > 2
    assert all(later < before for before, later in pairwise(values))
    sign = np.where(y == "in", -1.0, 1.0)
    again = polyopt.certify_cpm(
        X, sign, 0.7, W=answer["W"], assignment=assignment(X, answer["held"]), tol=1e-5, max_iter=20_000
    )
    assert again.primal_value == pytest.approx(proof.primal_value, rel=1e-10)
    assert again.dual_value <= proof.primal_value
    scores = found.decision_function(X)
    assert np.array_equal(scores, found.face_scores(X).max(axis=1))
    assert np.array_equal(found.predict(X), np.where(scores > 0, "out", "in"))
    assert found.polytope_.contains(X).tolist() == (scores <= 0).tolist()
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.predict(X), found.predict(X))


def test_a_pilot_of_the_whole_begins_where_it_ends(data, monkeypatch):
    X, y, weights = data
    found = machine().fit(scale.Arrays(X, y, weights, rows=50))
    monkeypatch.setattr(sgd_by_blocks, "OPTIONS", sgd_by_blocks.Options(pilot_samples=100))
    other = machine().fit(scale.Arrays(X, y, weights, rows=50))
    assert found.certificate().claim is other.certificate().claim is Claim.STATIONARY
    best = polyopt.ConvexPolytopeMachine(K, C=0.7, inside_label="in", random_state=0).fit(X, y, weights)
    assert found.certificate().primal_value <= 1.1 * best.certificate().primal_value
    flipped = machine(inside_label="out").fit(scale.Arrays(X, y))
    turned = machine().fit(scale.Arrays(X, np.where(y == "in", "out", "in")))
    assert bits(flipped) == bits(turned)
    assert np.array_equal(flipped.predict(X) == "in", turned.predict(X) == "out")


def test_one_face_is_optimal_whatever_it_begins_from(data):
    X, y, _ = data
    found = machine(n_faces=1).fit(scale.Arrays(X, y))
    assert found.certificate().claim is Claim.OPTIMAL
    assert found.solution_.status is Status.SOLVED
    whole = polyopt.ConvexPolytopeMachine(1, C=0.7, inside_label="in", solver="exact").fit(X, y)
    assert found.certificate().primal_value == pytest.approx(whole.certificate().primal_value, rel=1e-8)


def halves(source, faces, moved=0.0, steps=None):
    """Halves of the faces' proofs, of points after some steps that are moved by so much."""
    executor, pair, found = ThreadExecutor(source), Pair(("in", "out"), (1.0, 1.0), 0.7), []
    for face in range(K):
        crew = executor.crew(FaceRecipe(pair, faces, face))
        answer = solve_problem(state_problem(crew, 1, None, intercept=False), 1e-9, steps, Clock(None))
        v = np.append(answer["w"], answer["b"]) + moved
        rows = Families(margin_family(np.array([1.0, -1.0]), np.full(2, 0.35)))
        ask = lambda *step, crew=crew: crew.ask("prove", *step)  # noqa: E731
        found.append(certify_blocks("half", ask, rows, v=v, b=0.0, centre=None, intercept=False))
    return found


@pytest.mark.parametrize(
    ("moved", "claim"), [(0.0, Claim.STATIONARY), (1e-4, Claim.SUBOPTIMAL_BY), (1e-2, None)]
)
def test_a_point_that_is_moved_is_not_stationary(moved, claim, data, start):
    X, y, _ = data
    proof = certify_faces(halves(scale.Arrays(X, y, rows=50), start, moved), NONE, 1e-6)
    assert proof.claim is (claim or Claim.SUBOPTIMAL_BY)
    assert (proof.worst.relative > 1e-6) == (moved > 0.0)
    assert certify_faces(halves(scale.Arrays(X, y, rows=50), start), NONE, 1e-6).dual_value <= (
        proof.primal_value
    )


def test_the_bound_is_one_whatever_the_multipliers_are(data, start):
    source = scale.Arrays(*data[:2], rows=50)
    exact = certify_faces(halves(source, start), NONE, 1e-6)
    for steps in (1, 3, 6):
        proof = certify_faces(halves(source, start, steps=steps), NONE, 1e-6)
        assert 0.0 <= proof.dual_value <= exact.primal_value
        assert exact.dual_value <= proof.primal_value
        assert steps == 1 or proof.dual_value > 0.0  # after one step the multipliers may prove nothing


def test_an_assignment_that_would_be_left_is_told(data, start):
    X, y, _ = data
    off = Residual("stationarity", "assignment", 0.3, 0.3, 7)
    proof = certify_faces(halves(scale.Arrays(X, y, rows=50), start), off, 1e-6)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.worst.row == "assignment"
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        short = machine(max_iter=1).begin_from(start).fit(scale.Arrays(X, y, rows=50))
    assert short.solution_.status is Status.ITERATION_LIMIT
    assert short.certificate().worst.row == "assignment"
    assert short.certificate().relative_gap < 1e-7
    settled = machine(tol=0.9).begin_from(start).fit(scale.Arrays(X, y, rows=50))  # and does not warn
    assert settled.solution_.status is Status.CONVERGED
    assert "Alternation ended with a round" in settled.certificate().note


def test_blocks_may_be_empty_or_of_one_class_or_of_many_sizes(data, start):
    X, y, _ = data
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    cuts = [0, 0, 3, 40, 40, 239, 240, 240]
    source = scale.Generated(lambda k: (X[cuts[k] : cuts[k + 1]], y[cuts[k] : cuts[k + 1]]), 7)
    whole, parts = (machine().begin_from(start).fit(each) for each in (scale.Arrays(X, y), source))
    assert parts.certificate().primal_value == pytest.approx(whole.certificate().primal_value, rel=1e-7)
    assert parts.certificate().claim is Claim.STATIONARY


def test_several_classes_have_a_polytope_for_each_pair(data):
    X, y, _ = data
    y = np.where(X[:, 0] > 1.0, "right", y)
    found = ConvexPolytopeMachine(2, random_state=0).fit(scale.Arrays(X, y, rows=50))
    assert [part.W_.shape for part in found.estimators_] == [(2, 3)] * 3
    assert found.certificate().claim is Claim.STATIONARY
    assert found.score(X, y) > 0.7
    with pytest.raises(AttributeError, match="polytope_ needs a machine of one polytope"):
        found.polytope_  # noqa: B018
    with pytest.raises(ValueError, match="needs two classes"):
        machine().fit(scale.Arrays(X, y))
    with pytest.raises(ValueError, match="begin_from needs two classes"):
        machine(inside_label=None).begin_from(np.ones((K, 4))).fit(scale.Arrays(X, y))


@pytest.mark.parametrize("stop", [1, 25, 60])
def test_a_fit_goes_on_from_its_checkpoint_to_the_same_bits(stop, data, start, tmp_path):
    """It is ended, as by a kill, in the midst of a face of the first round or of a later one."""
    X, y, weights = data
    source, path = scale.Arrays(X, y, weights, rows=50), tmp_path / "checkpoint"
    wanted = bits(machine().begin_from(start).fit(source))
    with killed_at_save(stop), pytest.raises(SystemExit):
        machine().begin_from(start).fit(source, checkpoint=path)
    assert bits(machine().fit(source, resume=path)) == wanted
    with pytest.raises(ValueError, match="of another fit: C was"):
        machine(C=2.0).fit(source, resume=path)
    with pytest.raises(ValueError, match="of another fit: its samples, labels or weights"):
        machine().fit(scale.Arrays(X + 1.0, y, weights, rows=50), resume=path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_goes_on_from_a_pass_before_its_rounds(data, tmp_path, monkeypatch):
    source, path = scale.Arrays(*data, rows=50), tmp_path / "checkpoint"
    monkeypatch.setattr(sgd_by_blocks, "OPTIONS", sgd_by_blocks.Options(max_passes=3))
    made = machine(max_iter=2)
    wanted = bits(made.fit(source))
    with killed_at_save(3), pytest.raises(SystemExit):
        made.fit(source, checkpoint=path)
    assert len(load(path, {})[1]["history"]) > 1  # of passes
    assert bits(made.fit(source, resume=path)) == wanted
    assert bits(made.set_params(random_state=5).fit(source, resume=path)) == wanted  # whose seed goes on


def test_limits_keep_a_point_with_its_proof(data, start):
    X, y, _ = data
    source = scale.Arrays(X, y)
    best = machine(tol=1e-9).begin_from(start).fit(source).certificate().dual_value
    for settings in ({"time_limit": 1e-3}, {"max_iter": 2}):
        with pytest.warns(ConvergenceWarning, match="limit"):
            short = machine(**settings).begin_from(start).fit(source)
        assert short.certificate().claim is Claim.SUBOPTIMAL_BY
        assert short.certificate().primal_value > best


def test_ctrl_c_keeps_the_best_round(data, start, monkeypatch):
    X, y, _ = data
    from polyopt.cpm import alternating_by_blocks as alternation

    solve, faces = alternation.solve_problem, []

    def interrupted(problem, tol, max_iter, clock, save, known, start):
        faces.append(max_iter)
        if len(faces) == K + 2:

            def save(known):
                raise KeyboardInterrupt

        return solve(problem, tol, max_iter, clock, save, known, start)

    monkeypatch.setattr(alternation, "solve_problem", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        found = machine().begin_from(start).fit(scale.Arrays(X, y))
    assert found.solution_.status is Status.INTERRUPTED
    assert len(faces) == K + 2
    assert found.certificate().relative_gap < 1e-7
    assert found.n_iter_ == 1


def test_ctrl_c_in_a_pass_keeps_faces_with_a_proof(data, monkeypatch):
    X, y, _ = data

    visits = []

    def visit(*arguments):
        visits.append(1)
        if len(visits) == 9:
            raise KeyboardInterrupt
        return real(*arguments)

    real = sgd_by_blocks._take_steps
    monkeypatch.setattr(sgd_by_blocks, "_take_steps", visit)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        found = machine().fit(scale.Arrays(X, y, rows=50))
    proof, start = found.certificate(), found.solution_["held"]
    assert found.solution_.status is Status.INTERRUPTED
    assert start.any()  # as the passes left them
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.primal_value <= cpm.objective(X, np.where(y == "in", -1.0, 1.0), start, 0.7) * (1.0 + 1e-9)


def with_nan(k):
    X, y, _ = ball(20)
    X[7, 2] = np.nan if k == 3 else 0.0
    return X, y


@pytest.mark.parametrize(
    ("settings", "source", "given", "message"),
    [
        ({}, scale.Generated(with_nan, 5), None, "in partition 3, row 7, feature 2"),
        ({"inside_label": "no"}, None, None, r"inside_label must be one of \['in', 'out'\]"),
        ({}, scale.Arrays(ball(40)[0], np.arange(40) % 3), None, "needs two classes, but there are 3"),
        ({}, None, np.ones((2, 4)), r"of shape \(3, 4\), not \(2, 4\)"),
        ({}, None, np.full((3, 4), np.nan), "faces"),
        ({}, scale.Arrays(1e150 * ball(40)[0], ball(40)[1]), None, "X must have entries of at most 1e"),
        ({"n_faces": 0}, None, None, "n_faces must be"),
    ],
)
def test_what_is_wrong_is_named(settings, source, given, message):
    X, y, _ = ball(40)
    source = scale.Arrays(X, y) if source is None else source
    begun = lambda made: made if given is None else made.begin_from(given)  # noqa: E731
    with pytest.raises(ValueError, match=message):
        begun(machine(**settings)).fit(source)
