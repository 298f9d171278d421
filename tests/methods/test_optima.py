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


@by_name
@by_data
def test_solvers_of_a_convex_program_agree(name, data):
    """With one face each program is convex: no solver's bound is above another's value."""
    found = [certified(Case(name, solver), data, n_faces=1) for solver in solvers_of(name)]
    exact = certified(Case(name, "exact"), data, n_faces=1)
    for certificate in found:
        assert_true_bounds(certificate, exact)


@pytest.mark.parametrize("name", [name for name in NAMES if METHODS[name].proving])
@by_data
def test_global_optimum_is_the_lowest(name, data):
    """No solver's point is below the bound of the solver that proves the optimum."""
    proven = certified(Case(name, METHODS[name].proving), data)
    for solver in solvers_of(name):
        assert certified(Case(name, solver), data).primal_value >= proven.dual_value - 1e-9
