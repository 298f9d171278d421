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


def drawn(seed, coarse):
    """Samples that are few, and on a grid where they are coarse: several on the margin at once."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 2))
    X = np.round(2 * X) / 2 if coarse else X
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=14) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def machines(C):
    yield from (polyopt.SVM(C, **kernel) for kernel in KERNELS)
    yield from (polyopt.RelativeMarginMachine(C, B=1.5, **kernel) for kernel in KERNELS)
    yield polyopt.ConvexPolytopeMachine(n_faces=2, C=C, n_init=1, random_state=0, solver="exact")


@pytest.mark.parametrize("seed", range(4))
def test_the_rational_optimum_keeps_every_condition_exactly(seed):
    X, y = drawn(seed, coarse=seed % 2 == 0)
    for machine in machines([0.125, 1.0][seed // 2]):
        certificate = machine.fit(X, y).certificate()
        found = exact_solution(certificate)
        # Equal values of the point and of the multipliers were demanded: here they meet the float ones.
        slack = 1e-12 * max(1.0, certificate.primal_value)
        assert certificate.dual_value - slack <= found.value <= certificate.primal_value + slack
        assert all(isinstance(v, Fraction) for part in found.multipliers.values() for m in part for v in m)


FEW = {"n_faces": 2, "n_init": 1, "random_state": 0, "solver": "exact"}
WITH_CORNERS = {
    "one-norm": lambda C: polyopt.OneNormSVM(C, kernel="linear"),
    "one-norm-poly": lambda C: polyopt.OneNormSVM(C, **KERNELS[1]),
    "worst": lambda C: polyopt.ConvexPolytopeMachine(C=C, loss="max", **FEW),
    "prices": lambda C: polyopt.ConvexPolytopeMachine(
        C=C, penalty=polyopt.FacePenalty(l1=0.3, signs=[1, 0]), **FEW
    ),
    "sigma": lambda C: polyopt.SigmaSVM(C, 0.4, kernel="linear"),
    "sigma-poly": lambda C: polyopt.SigmaSVM(C, 0.4, **KERNELS[1]),
    "polyceptron": lambda C: polyopt.Polyceptron(n_faces=2, n_init=1, random_state=0, solver="highs"),
    "pc-slp": lambda C: polyopt.PCSLP(n_faces=2, n_init=1, random_state=0),
}


@pytest.mark.parametrize("name", WITH_CORNERS)
def test_weights_at_corners_and_shared_slacks_are_found_too(name):
    for seed in (0, 1, 10):  # seeds that are even are coarse; 10 is degenerate for the one-norm machine
        X, y = drawn(seed, coarse=seed % 2 == 0)
        certificate = WITH_CORNERS[name]([0.125, 1.0, 8.0][seed % 3]).fit(X, y).certificate()
        found = exact_solution(certificate)
        slack = 1e-12 * max(1.0, certificate.primal_value)
        assert certificate.dual_value - slack <= found.value <= certificate.primal_value + slack


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
def test_the_rational_optimum_of_a_pattern(kernel):
    """The rational optimum of a pattern is that of its linear program."""
    for seed in (0, 1, 11):  # 11: the solver's own point is 4e-11 off
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


def test_a_price_by_hand():
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


def test_without_free_multipliers_b_is_the_middle():
    """No multiplier between its ends leaves the middle of the intercepts."""
    machine = polyopt.SVM(0.125, kernel="linear").fit([[-1.0], [1.0]], [-1, 1])
    found = exact_solution(machine.certificate())
    assert (found.W, found.b) == ([[Fraction(1, 4)]], [0])


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.5}, KERNELS[1]])
def test_thirty_digits_are_proven(kernel, tmp_path, capsys):
    X, y = drawn(3, coarse=False)
    for machine in (
        polyopt.SVM(2.0, **kernel), polyopt.RelativeMarginMachine(2.0, B=1.4, **kernel),
        polyopt.OneNormSVM(2.0, **kernel), polyopt.SigmaSVM(2.0, 0.4, **kernel),
    ):  # fmt: skip
        certificate = machine.fit(X, y).certificate().refine(30)
        certificate.save(tmp_path / "c.json", data=tmp_path / "c.svm")
        assert checker.main([str(tmp_path / "c.json"), str(tmp_path / "c.svm")]) == 0
        capsys.readouterr()
        stated = json.loads((tmp_path / "c.json").read_text())["claims"][0]["claim"]
        value, gap = checker.number(stated["value"]), checker.number(stated["gap"])
        assert 0 <= gap <= value / 10**30
        assert certificate.dual_value <= float(value) <= certificate.primal_value


def test_a_refined_point_claims_what_its_values_prove():
    X, y = drawn(3, coarse=False)
    own = polyopt.SVM(2.0, kernel="linear").fit(X, y).certificate()
    early = replace(own, claim=Claim.SUBOPTIMAL_BY, primal_value=9.0, rounding=1.0, stated=3.0)
    found = early.refine(20)
    assert found.claim is Claim.OPTIMAL
    assert (found.rounding, found.stated) == (0.0, None)
    polytope = polyopt.ConvexPolytopeMachine(**FEW).fit(X, y).certificate().refine(20)
    assert polytope.claim is Claim.SUBOPTIMAL_BY
    assert "fixed-assignment program, proven" in polytope.sentence


def test_what_cannot_be_refined_says_so():
    X, y = drawn(1, coarse=False)
    rbf = polyopt.SVM(kernel="rbf").fit(X, y).certificate()
    with pytest.raises(ValueError, match="not rational"):
        exact_solution(rbf)
    with pytest.raises(ValueError, match="from 1 to 100"):
        rbf.refine(0)
    with pytest.raises(ValueError, match="digits are not reached"):
        rbf.refine(60)
    for machine in (
        polyopt.SPLA1(n_faces=1, n_init=1),
        polyopt.ConvexPolytopeMachine(penalty=polyopt.FacePenalty(margin="worst"), **FEW),
    ):
        certificate = machine.fit(X, y).certificate()
        with pytest.raises(ValueError, match="rational"):
            exact_solution(certificate)
        with pytest.raises(ValueError, match="rational"):
            certificate.refine()


def test_linear_equations_in_fractions():
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


def test_a_ray_is_proven_by_the_checker(tmp_path, capsys):
    line, y = np.array([[0.0], [1.0], [0.25], [2.0]]), np.array([1, -1, -1, 1])
    certificate = polyopt.certify_svm(line, y, np.inf, alpha=[0.875, 0.0, 1.0, 0.125])
    assert certificate.claim is polyopt.Claim.INFEASIBLE
    claim, cells = tmp_path / "ray.json", tmp_path / "ray.svm"
    certificate.save(claim, data=cells)
    assert checker.main([str(claim), str(cells)]) == 0
    text = claim.read_text()
    for old, new in (('"7/8"', '"5/8"'), ('"inf"', "1"), ('"infeasible"', '"bounds"')):
        assert old in text
        claim.write_text(text.replace(old, new))
        assert checker.main([str(claim), str(cells)]) == 1, old
    assert "no point keeps the rows" in capsys.readouterr().out


def test_a_small_table_is_solved_in_fractions(tmp_path):
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
