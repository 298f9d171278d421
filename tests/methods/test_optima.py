"""Every method and solver on six data sets: certificates are true, claims are accepted, solvers agree."""

import numpy as np
import pytest
from helpers.methods import (
    CASES,
    DATA,
    METHODS,
    NAMES,
    Case,
    assert_true_bounds,
    certified,
    fitted,
    solvers_of,
    usual,
)

from polyopt import Claim
from polyopt.check import check as checker

by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_data = pytest.mark.parametrize("data", DATA)
by_name = pytest.mark.parametrize("name", NAMES)


@by_case
@by_data
def test_certificate_proves(case, data):
    """The bound is below the value, and an exact solver's point is optimal, if only for its assignment."""
    certificate = certified(case, data)
    assert np.isfinite(certificate.primal_value)
    assert certificate.dual_value <= certificate.primal_value
    assert certificate.claim not in (Claim.NONE, Claim.CONTRADICTION, Claim.INFEASIBLE)
    if case.solver == "exact":
        assert certificate.claim in (Claim.OPTIMAL, Claim.STATIONARY, Claim.SOLVERS_WORD)


@by_case
def test_solver_is_named(case):
    """The solver asked for is the one that ran; two solvers of one method do not run the same algorithm."""
    others = [fitted(Case(case.name, solver)) for solver in solvers_of(case.name) if solver != case.solver]
    assert fitted(case).solver_ == case.solver
    if not case.method.is_integer:  # whose programs are HiGHS's either way
        assert fitted(case).solution_.solver not in {other.solution_.solver for other in others}


@by_name
def test_auto_is_one_of_the_solvers(name):
    """The solver "auto" is one of the others, with its scores."""
    machine, X = fitted(Case(name, "auto")), DATA["overlapping"].X
    same = fitted(Case(name, machine.solver_))
    assert machine.decision_function(X) == pytest.approx(same.decision_function(X), abs=1e-6)


@by_name
def test_pairs_of_classes(name):
    """Multipliers of three classes name pairs, labels and samples; the certificate adds up the pairs'."""
    machine, y = fitted(usual(name), "three classes"), DATA["three classes"].y
    if not hasattr(machine, "estimators_"):
        pytest.skip("its classes are one program")
    parts = [part.certificate().primal_value for part in machine.estimators_]
    assert machine.certificate().primal_value == pytest.approx(sum(parts))
    assert machine.pairs_ == [(0, 1), (0, 2), (1, 2)]
    duals = machine.duals_.query("sample >= 0")
    assert set(duals["pair"]) == {"0 vs 1", "0 vs 2", "1 vs 2"}
    assert (duals["label"] == y[duals["sample"]]).all()
    for first, second in machine.pairs_:
        own = duals[duals["pair"] == f"{first} vs {second}"]
        assert set(own["sample"]) == {*np.flatnonzero((y == first) | (y == second))}


@by_case
@by_data
def test_objective_is_certified(case, data):
    """The solution's objective is the value that the certificate computes from the data."""
    solutions = fitted(case, data).solution_
    objective = sum(part.objective for part in (solutions if isinstance(solutions, list) else [solutions]))
    assert certified(case, data).primal_value == pytest.approx(objective, rel=1e-6, abs=1e-9)


@by_case
@by_data
def test_claim_is_accepted(case, data, tmp_path, capsys):
    """The standalone checker proves every machine's claim from the data, unless it is a solver's word."""
    if certified(case, data).claim is Claim.SOLVERS_WORD:
        pytest.skip("the bound is HiGHS's")
    claim, samples = tmp_path / "claim.json", tmp_path / "samples"
    certified(case, data).save(claim)
    samples.write_text(DATA[data].svmlight())
    assert checker.main([str(claim), str(samples)]) == 0, capsys.readouterr().out


@by_case
@by_data
def test_solvers_of_a_convex_program_agree(case, data):
    """With one face each program is convex: no bound is above the exact value, and gaps are below 1 %."""
    certificate = certified(case, data, n_faces=1)
    assert_true_bounds(certificate, certified(Case(case.name, "exact"), data, n_faces=1))
    heuristics = {"batch", "online", "ce", "one-norm"}  # perceptrons and searches, whose runs settle anywhere
    assert case.solver in heuristics or certificate.relative_gap <= 1e-2


@pytest.mark.parametrize("name", [name for name in NAMES if METHODS[name].proving])
@by_data
def test_global_optimum_is_the_lowest(name, data):
    """No solver's point is below the bound of the solver that proves the optimum, or states it."""
    proven = certified(Case(name, METHODS[name].proving), data)
    assert proven.claim in (Claim.OPTIMAL, Claim.SOLVERS_WORD)
    for solver in solvers_of(name):
        assert certified(Case(name, solver), data).primal_value >= proven.dual_value - 1e-9
