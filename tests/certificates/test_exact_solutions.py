"""The optimum in fractions, and to thirty digits."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.commands import run

import polyopt
from formulations import l0
from polyopt import Claim, exact_solution
from polyopt.certificates.claims.active_set import solve_exactly, solve_refined
from polyopt.check import check as checker

KERNELS = [{"kernel": "linear"}, {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5}]
FEW = {"n_faces": 2, "n_init": 1, "random_state": 0, "solver": "exact"}
MACHINES = {
    "svm": lambda C: polyopt.SVM(C, kernel="linear"),
    "svm-poly": lambda C: polyopt.SVM(C, **KERNELS[1]),
    "rmm": lambda C: polyopt.RelativeMarginMachine(C, B=1.5, kernel="linear"),
    "rmm-poly": lambda C: polyopt.RelativeMarginMachine(C, B=1.5, **KERNELS[1]),
    "one-norm": lambda C: polyopt.OneNormSVM(C, kernel="linear"),
    "one-norm-poly": lambda C: polyopt.OneNormSVM(C, **KERNELS[1]),
    "sigma": lambda C: polyopt.SigmaSVM(C, 0.4, kernel="linear"),
    "sigma-poly": lambda C: polyopt.SigmaSVM(C, 0.4, **KERNELS[1]),
    "cpm": lambda C: polyopt.ConvexPolytopeMachine(C=C, **FEW),
    "cpm-max": lambda C: polyopt.ConvexPolytopeMachine(C=C, loss="max", **FEW),
    "cpm-signs": lambda C: polyopt.ConvexPolytopeMachine(
        C=C, penalty=polyopt.FacePenalty(l1=0.3, signs=[1, 0]), **FEW
    ),
    "polyceptron": lambda C: polyopt.Polyceptron(n_faces=2, n_init=1, random_state=0, solver="highs"),
    "pc-slp": lambda C: polyopt.PCSLP(n_faces=2, n_init=1, random_state=0),
}


def drawn(seed, coarse):
    """Fourteen samples; coarse ones are on a grid, with several on the margin at once."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 2))
    X = np.round(2 * X) / 2 if coarse else X
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=14) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", [1, 10])  # 10 is degenerate for the one-norm machine
def test_rational_optimum_is_within_certificate(name, seed):
    """The exact optimum, whose value and dual value are one fraction, is between bound and value."""
    X, y = drawn(seed, coarse=seed % 2 == 0)
    certificate = MACHINES[name](1.0).fit(X, y).certificate()
    found = exact_solution(certificate)
    slack = 1e-12 * max(1.0, certificate.primal_value)
    assert certificate.dual_value - slack <= found.value <= certificate.primal_value + slack
    assert all(isinstance(v, Fraction) for part in found.multipliers.values() for m in part for v in m)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
def test_rational_optimum_of_pattern(kernel):
    """The rational optimum of a pattern is that of its linear program."""
    for seed in (1, 11):  # 11: the solver's own point is 4e-11 off
        X, y = drawn(seed, coarse=seed % 2 == 1)
        C = [0.125, 1.0, 8.0, 64.0][seed % 4]
        machine = polyopt.CrossEntropySVM(C, random_state=0, **kernel).fit(X, y)
        found = exact_solution(machine.certificate())
        sigma = np.array([a != 0 for a in found.W[0]])
        assert set(np.flatnonzero(sigma)) <= set(np.flatnonzero(machine.solution_["sigma"]))
        K = (X @ X.T) if kernel["kernel"] == "linear" else (0.5 * X @ X.T + 1.0) ** 2
        program = l0.pattern(K, y, machine.solution_["sigma"], C=C).solve()
        value = float(machine.solution_["sigma"].sum()) + C * program.objective
        assert float(found.value) == pytest.approx(value, rel=1e-7, abs=1e-7)
        assert float(found.value) <= machine.certificate().primal_value * (1 + 1e-12)


def test_price_by_hand():
    """Points 0 and 2: w = 1 and b = -1 keep both margins, and that is worth a price of 1/2."""
    machine = polyopt.OneNormSVM(3.0, kernel="linear").fit([[0.0], [2.0]], [-1, 1])
    found = exact_solution(machine.certificate())
    # w = a_2 y_2 k(x, 2) = 2 a_2 x: half of it is enough for a w of 1.
    assert (found.W, found.b, found.value) == ([[0, Fraction(1, 2)]], [-1], Fraction(1, 2))
    assert found.multipliers["margin"] == [[Fraction(1, 4), Fraction(1, 4)]]


def test_two_points_by_hand():
    """Points 0 and 2: w = 1, b = -1, and multipliers of 1/2, as 1/2 w² = 1/2 = 2 alpha - 2 alpha²."""
    found = exact_solution(polyopt.SVM(kernel="linear").fit([[0.0], [2.0]], [-1, 1]).certificate())
    assert (found.W, found.b, found.value) == ([[1]], [-1], Fraction(1, 2))
    assert found.multipliers == {"margin": [[Fraction(1, 2), Fraction(1, 2)]]}


def test_intercept_without_free_multipliers():
    """No multiplier between its ends leaves the middle of the intercepts."""
    machine = polyopt.SVM(0.125, kernel="linear").fit([[-1.0], [1.0]], [-1, 1])
    found = exact_solution(machine.certificate())
    assert (found.W, found.b) == ([[Fraction(1, 4)]], [0])


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.5}], ids=str)
@pytest.mark.parametrize("name", ["SVM", "RelativeMarginMachine", "OneNormSVM", "SigmaSVM"])
def test_thirty_digits_are_accepted(name, kernel, tmp_path):
    """A refined point has a gap of 1e-30, in exact arithmetic, and the checker proves it."""
    certificate = getattr(polyopt, name)(2.0, **kernel).fit(*drawn(3, coarse=False)).certificate().refine(30)
    certificate.save(tmp_path / "c.json", data=tmp_path / "c.svm")
    assert checker.main([str(tmp_path / "c.json"), str(tmp_path / "c.svm")]) == 0
    stated = json.loads((tmp_path / "c.json").read_text())["claims"][0]["claim"]
    value, gap = checker.number(stated["value"]), checker.number(stated["gap"])
    assert 0 <= gap <= value / 10**30
    assert certificate.dual_value <= float(value) <= certificate.primal_value


def test_refined_point_claims_its_values():
    """A refined optimum has no rounding and no solver's word; of a fixed assignment it is suboptimal."""
    X, y = drawn(3, coarse=False)
    own = polyopt.SVM(2.0, kernel="linear").fit(X, y).certificate()
    early = replace(own, claim=Claim.SUBOPTIMAL_BY, primal_value=9.0, rounding=1.0, stated=3.0)
    found = early.refine(20)
    assert found.claim is Claim.OPTIMAL
    assert (found.rounding, found.stated) == (0.0, None)
    polytope = polyopt.ConvexPolytopeMachine(**FEW).fit(X, y).certificate().refine(20)
    assert polytope.claim is Claim.SUBOPTIMAL_BY
    assert "fixed-assignment program, proven" in polytope.sentence


@pytest.mark.parametrize(("digits", "reason"), [(0, "from 1 to 100"), (60, "digits are not reached")])
def test_impossible_digits_are_refused(digits, reason):
    """A kernel with exponentials is known to thirty digits."""
    rbf = polyopt.SVM(kernel="rbf").fit(*drawn(1, coarse=False)).certificate()
    with pytest.raises(ValueError, match=reason):
        rbf.refine(digits)


@pytest.mark.parametrize("machine", [
    polyopt.SVM(kernel="rbf"), polyopt.SPLA1(n_faces=1, n_init=1),
    polyopt.ConvexPolytopeMachine(penalty=polyopt.FacePenalty(margin="worst"), **FEW),
], ids=["rbf", "spla1", "worst margin"])  # fmt: skip
def test_irrational_optimum_is_refused(machine):
    """Exponentials, logarithms and the longest face's norm are not rational."""
    certificate = machine.fit(*drawn(1, coarse=False)).certificate()
    with pytest.raises(ValueError, match="rational"):
        exact_solution(certificate)


def test_equations_are_solved_in_fractions():
    """A singular system has a solution if it does not contradict itself."""
    A = [[Fraction(2), Fraction(1), Fraction(3)], [Fraction(4), Fraction(2), Fraction(6)]]
    guess = [Fraction(0), Fraction(1), Fraction(2)]
    assert solve_exactly(A, [Fraction(11), Fraction(22)], guess) == [2, 1, 2]
    with pytest.raises(ValueError, match="contradict"):
        solve_exactly(A, [Fraction(11), Fraction(21)], guess)
    square, right = [[Fraction(3), Fraction(1)], [Fraction(1), Fraction(7)]], [Fraction(1), Fraction(2)]
    exact = solve_exactly(square, right, guess[:2])
    for bits in (200, 1500):
        near = solve_refined(square, right, guess[:2], bits)
        assert max(abs(v - e) for v, e in zip(near, exact, strict=True)) < Fraction(1, 2 ** (bits - 10))


def test_small_table_is_solved_in_fractions(tmp_path):
    """The command prints the optimum of a CSV table in fractions, its numbers as they are written."""
    table = tmp_path / "tiny.csv"
    table.write_text("a,label\n0.1,no\n0.3,yes\n")
    done = run("show", "svm", "--solve", table, "--set", "C=100")
    assert done.exit_code == 0
    # w = 2 / 0.2 = 10, b = -2 and alpha = w / 0.2 = 50: a tenth is a tenth here, and no double.
    for line in ("w_1 = 10", "b = -2", "alpha_1 = 50    (label no)", "multipliers = 50"):
        assert line in done.stdout
    done = run("show", "rmm-rbf", "--solve", table)
    assert (done.exit_code, "not rational" in done.stderr) == (2, True)
    assert run("show", "svm", "--set", "C=1").exit_code == 2
