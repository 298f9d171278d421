"""The Convex Polytope Machine on blocks: programs of a frozen assignment, as those in memory."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.checkpoints import killed_at_save
from sklearn.exceptions import ConvergenceWarning

import polyopt
from formulations.families import Families, margin_family
from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt import Claim, large
from polyopt.certificates.certificate import Residual
from polyopt.cpm.certificate_by_blocks import certify_faces
from polyopt.large.alternation import FaceRecipe
from polyopt.large.blocks import Recipe
from polyopt.large.checkpoint import load
from polyopt.large.executor import LocalExecutor
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem

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
    return large.ConvexPolytopeMachine(**{"n_faces": K, "C": 0.7, "inside_label": "in", **settings})


def bits(fitted):
    proof = fitted.certificate()
    return fitted.faces_.tobytes(), proof.primal_value, proof.dual_value, fitted.n_iter_


def assignment(X, faces):
    return (np.asarray(X @ faces[:, :-1].T) + faces[:, -1]).argmax(axis=1)


@pytest.mark.parametrize(
    ("store", "class_weight"), [(np.asarray, None), (sp.csr_array, WEIGHTS), (np.float32, WEIGHTS)]
)
def test_for_one_assignment_it_is_the_machine_in_memory(store, class_weight, data, start):
    X, y, weights = data
    X = store(np.round(X, 2))
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        parts = machine(max_rounds=1, class_weight=class_weight).fit(
            large.Arrays(X, y, weights, rows=37), faces=start
        )
    used = weights > 0
    held = polyopt.ConvexPolytopeMachine(
        K, C=0.7, inside_label="in", solver="exact", class_weight=class_weight
    )
    held.fit_from(X[used], y[used], assignment(X[used], start), hold=True, sample_weight=weights[used])
    found, proof = parts.solutions_[0], parts.certificate()
    assert found["held"].tobytes() == start.tobytes()
    assert found.objective == pytest.approx(held.solution_.objective, rel=1e-8)
    assert proof.primal_value == pytest.approx(held.certificate().primal_value, rel=1e-8)
    assert proof.dual_value == pytest.approx(held.certificate().dual_value, rel=1e-8)
    assert parts.W_ == pytest.approx(held.W_, abs=1e-4)
    assert parts.face_scores(X) == pytest.approx(held.face_scores(X), abs=1e-3)


def test_rounds_fall_to_a_fixed_point_that_memory_certifies_too(data, start):
    X, y, _ = data
    found = machine(least_fall=0.0).fit(large.Arrays(X, y, rows=50), faces=start)
    proof, answer = found.certificate(), found.solutions_[0]
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


def test_a_pilot_of_the_whole_begins_where_it_ends(data):
    X, y, weights = data
    found = machine(random_state=0).fit(large.Arrays(X, y, weights, rows=50))
    other = machine(random_state=0, pilot=100).fit(large.Arrays(X, y, weights, rows=50))
    assert found.certificate().claim is other.certificate().claim is Claim.STATIONARY
    best = polyopt.ConvexPolytopeMachine(K, C=0.7, inside_label="in", random_state=0).fit(X, y, weights)
    assert found.certificate().primal_value <= 1.1 * best.certificate().primal_value
    flipped = machine(inside_label="out", random_state=0).fit(X, y)
    turned = machine(random_state=0).fit(X, np.where(y == "in", "out", "in"))
    assert bits(flipped) == bits(turned)
    assert np.array_equal(flipped.predict(X) == "in", turned.predict(X) == "out")


def test_one_face_is_optimal_whatever_it_begins_from(data):
    X, y, _ = data
    found = machine(n_faces=1).fit(X, y)
    assert found.certificate().claim is Claim.OPTIMAL
    assert found.solutions_[0].status is Status.SOLVED
    whole = polyopt.ConvexPolytopeMachine(1, C=0.7, inside_label="in", solver="exact").fit(X, y)
    assert found.certificate().primal_value == pytest.approx(whole.certificate().primal_value, rel=1e-8)


def halves(source, faces, moved=0.0):
    """Halves of the faces' proofs, of points that are moved by so much."""
    executor, recipe, found = LocalExecutor(source), Recipe(("in", "out"), (1.0, 1.0), 0.7), []
    for face in range(K):
        crew = executor.crew(FaceRecipe(recipe, faces, face))
        answer = solve_problem(state_problem(crew, 1, None, intercept=False), 1e-9, None, Clock(None), None)
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
    proof = certify_faces(halves(large.Arrays(X, y, rows=50), start, moved), NONE, 1e-6)
    assert proof.claim is (claim or Claim.SUBOPTIMAL_BY)
    assert (proof.worst.relative > 1e-6) == (moved > 0.0)
    assert certify_faces(halves(large.Arrays(X, y, rows=50), start), NONE, 1e-6).dual_value <= (
        proof.primal_value
    )


def test_an_assignment_that_would_be_left_is_told(data, start):
    X, y, _ = data
    off = Residual("stationarity", "assignment", 0.3, 0.3, 7)
    proof = certify_faces(halves(large.Arrays(X, y, rows=50), start), off, 1e-6)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.worst.row == "assignment"
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        short = machine(max_rounds=1).fit(large.Arrays(X, y, rows=50), faces=start)
    assert short.solutions_[0].status is Status.ITERATION_LIMIT
    assert short.certificate().worst.row == "assignment"
    assert short.certificate().relative_gap < 1e-7
    settled = machine(least_fall=0.5).fit(large.Arrays(X, y, rows=50), faces=start)  # and does not warn
    assert settled.solutions_[0].status is Status.CONVERGED
    assert "Alternation ended with a round" in settled.certificate().note


def test_blocks_may_be_empty_or_of_one_class_or_of_many_sizes(data, start):
    X, y, _ = data
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    cuts = [0, 0, 3, 40, 40, 239, 240, 240]
    source = large.Generated(lambda k: (X[cuts[k] : cuts[k + 1]], y[cuts[k] : cuts[k + 1]]), 7)
    whole, parts = machine().fit(X, y, faces=start), machine().fit(source, faces=start)
    assert parts.certificate().primal_value == pytest.approx(whole.certificate().primal_value, rel=1e-7)
    assert parts.certificate().claim is Claim.STATIONARY


def test_several_classes_have_a_polytope_for_each_pair(data):
    X, y, _ = data
    y = np.where(X[:, 0] > 1.0, "right", y)
    found = large.ConvexPolytopeMachine(2, random_state=0).fit(large.Arrays(X, y, rows=50))
    assert found.faces_.shape == (3, 2, 4)
    assert [proof.claim for proof in found.certificate()] == [Claim.STATIONARY] * 3
    assert found.score(X, y) > 0.7
    with pytest.raises(AttributeError, match="W_ is of one polytope"):
        found.W_  # noqa: B018
    with pytest.raises(ValueError, match="needs two classes"):
        machine().fit(X, y)


@pytest.mark.parametrize("stop", [1, 25, 60])
def test_a_fit_goes_on_from_its_checkpoint_to_the_same_bits(stop, data, start, tmp_path):
    """It is ended, as by a kill, in the midst of a face of the first round or of a later one."""
    X, y, weights = data
    source, path = large.Arrays(X, y, weights, rows=50), tmp_path / "checkpoint"
    wanted = bits(machine().fit(source, faces=start))
    with killed_at_save(stop), pytest.raises(SystemExit):
        machine().fit(source, faces=start, checkpoint=path)
    assert bits(machine().fit(source, resume=path)) == wanted
    with pytest.raises(ValueError, match="of another fit: C was"):
        machine(C=2.0).fit(source, resume=path)
    with pytest.raises(ValueError, match="of another fit: its samples, labels or weights"):
        machine().fit(large.Arrays(X + 1.0, y, weights, rows=50), resume=path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_goes_on_from_a_pass_before_its_rounds(data, tmp_path):
    source, path = large.Arrays(*data, rows=50), tmp_path / "checkpoint"
    made = machine(max_rounds=2, max_passes=3)
    wanted = bits(made.fit(source))
    with killed_at_save(3), pytest.raises(SystemExit):
        made.fit(source, checkpoint=path)
    assert len(load(path, {})[1]["history"]) > 1  # of passes
    assert bits(made.fit(source, resume=path)) == wanted
    with pytest.raises(ValueError, match="of another fit: seed was"):
        made.set_params(random_state=5).fit(source, resume=path)


def test_limits_keep_a_point_with_its_proof(data, start):
    X, y, _ = data
    best = machine(least_fall=0.0).fit(X, y, faces=start).certificate().dual_value
    for settings in ({"time_limit": 1e-3}, {"max_iter": 2, "max_rounds": 2}):
        with pytest.warns(ConvergenceWarning, match="limit"):
            short = machine(**settings).fit(X, y, faces=start)
        assert short.certificate().claim is Claim.SUBOPTIMAL_BY
        assert short.certificate().primal_value > best
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact = machine(max_rounds=1).fit(X, y, faces=start).certificate()
        for steps in (1, 3, 6):  # the bound is one whatever the multipliers are
            proof = machine(max_rounds=1, max_iter=steps).fit(X, y, faces=start).certificate()
            assert 0.0 <= proof.dual_value <= exact.primal_value
            assert exact.dual_value <= proof.primal_value
            assert steps == 1 or proof.dual_value > 0.0  # after one step the multipliers may prove nothing


def test_ctrl_c_keeps_the_best_round(data, start, monkeypatch):
    X, y, _ = data
    from polyopt.large import alternation

    solve, faces = alternation.solve_problem, []

    def interrupted(problem, tol, max_iter, clock, progress, save, known, start):
        faces.append(max_iter)
        if len(faces) == K + 2:

            def save(known):
                raise KeyboardInterrupt

        return solve(problem, tol, max_iter, clock, progress, save, known, start)

    monkeypatch.setattr(alternation, "solve_problem", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        found = machine().fit(X, y, faces=start)
    assert found.solutions_[0].status is Status.INTERRUPTED
    assert len(faces) == K + 2
    assert found.certificate().relative_gap < 1e-7
    assert found.n_iter_ == 1


def test_ctrl_c_in_a_pass_keeps_faces_with_a_proof(data, monkeypatch):
    X, y, _ = data
    from polyopt.large import sgd

    visits = []

    def visit(*arguments):
        visits.append(1)
        if len(visits) == 9:
            raise KeyboardInterrupt
        return real(*arguments)

    real = sgd._take_steps
    monkeypatch.setattr(sgd, "_take_steps", visit)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        found = machine().fit(large.Arrays(X, y, rows=50))
    proof, start = found.certificate(), found.starts_[0]
    assert found.solutions_[0].status is start.status is Status.INTERRUPTED
    assert np.array_equal(found.solutions_[0]["held"], start["W"])
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.primal_value <= start.objective * (1.0 + 1e-9)


def with_nan(k):
    X, y, _ = ball(20)
    X[7, 2] = np.nan if k == 3 else 0.0
    return X, y


@pytest.mark.parametrize(
    ("settings", "source", "given", "message"),
    [
        ({}, large.Generated(with_nan, 5), {}, "in partition 3, row 7, feature 2"),
        ({"inside_label": "no"}, None, {}, r"inside_label must be one of \['in', 'out'\]"),
        ({}, large.Arrays(ball(40)[0], np.arange(40) % 3), {}, "needs two classes, but there are 3"),
        ({}, None, {"faces": np.ones((2, 4))}, r"of shape \(3, 4\), not \(2, 4\)"),
        ({}, None, {"faces": np.full((3, 4), np.nan)}, "faces"),
        ({}, large.Arrays(1e150 * ball(40)[0], ball(40)[1]), {}, "X must have entries of at most 1e"),
        ({"pilot": 0}, None, {}, "pilot must be"),
        ({"max_passes": 0}, None, {}, "max_passes must be"),
        ({"least_fall": -1.0}, None, {}, "least_fall must lie"),
        ({"n_faces": 0}, None, {}, "n_faces must be"),
    ],
)
def test_what_is_wrong_is_named(settings, source, given, message):
    X, y, _ = ball(40)
    with pytest.raises(ValueError, match=message):
        machine(**settings).fit(large.Arrays(X, y) if source is None else source, **given)
