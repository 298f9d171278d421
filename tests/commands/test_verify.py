"""The verification of programs can fail: wrong duals, recovery maps and integer points fall short."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import pytest
from rich.console import Console

from formulations import family, l0, svm
from formulations.language.program import Duality
from formulations.language.toy_data import two_blobs
from polyopt.verify import check_pair, check_single, falls_short, verification_table, verify

X, Y = two_blobs(n=10)


def svm_pair(dual_cost=1.0, shift=0.0):
    """The SVM with its dual at a cost, and a recovery map that is off by a shift of b."""

    def recover(variables):
        point = svm.recover(X, Y, 1.0, variables["alpha"])
        return {**point, "b": point["b"] + shift}

    return Duality(svm.primal(X, Y, 1.0), svm.dual(X, Y, dual_cost), recover)


@pytest.mark.parametrize(
    ("pair", "short"),
    [
        (svm_pair(), []),
        (svm_pair(dual_cost=1.1), ["svm.primal", "svm.dual"]),
        (svm_pair(shift=0.01), ["svm.primal"]),
    ],
    ids=["right", "wrong dual", "wrong recovery"],
)
def test_wrong_pair_falls_short(pair, short):
    """A dual of another cost fails by its value, a recovery map by its point."""
    assert falls_short(list(check_pair("svm", pair))) == short


@pytest.mark.parametrize("name", ["sigma", "b"])
def test_wrong_integer_point_falls_short(name):
    """An integer program is held to the feasibility and the value of its solvers' points."""
    program = l0.mixed_integer(X @ X.T, Y)
    original = program.solve

    def off(*arguments, **options):
        solution = original(*arguments, **options)
        return replace(solution, primal={**solution.primal, name: solution[name] + 1.0})

    assert falls_short(list(check_single("l0", program))) == []
    program.solve = off
    assert falls_short(list(check_single("l0", program))) == ["l0.mixed_integer"]


def test_missing_solver_is_not_held_against(monkeypatch):
    """Without SCIP a quadratic integer program is not run, and a linear one is proven by HiGHS."""
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["CLARABEL", "HIGHS", "OSQP", "SCS"])
    programs = [*family("cpm").singles(0), l0.mixed_integer(X @ X.T, Y)]
    checks = [check for program in programs for check in check_single("any", program)]
    found = [(check.program, check.solver, check.verdict, check.where) for check in checks]
    assert found[:2] == [
        (name, "scip", "not run", "not installed")
        for name in ("cpm.mixed_integer", "cpm.mixed_integer_max_worst")
    ]
    assert found[2][:3] == ("l0.mixed_integer", "highs", "ok")
    assert len(found) == 3
    assert falls_short(checks) == []


def test_table_names_what_is_not_proven():
    """The table lists every program, and its caption those that fall short."""
    checks = verify(0, ("svm",))
    console = Console(width=120, color_system=None)

    def printed(rows):
        with console.capture() as capture:
            console.print(verification_table(rows, 120))
        return capture.get()

    text = printed(checks)
    assert "NOT proven" not in text
    assert all(check.program in text for check in checks)
    broken = [replace(checks[0], verdict="FAILS"), *checks[1:]]
    assert f"NOT proven: {checks[0].program}" in printed(broken)
