"""The verification of every program: it passes, and it can fail."""

from __future__ import annotations

import re
from dataclasses import replace

import cvxpy as cp
import pytest
from rich.console import Console

from formulations import FAMILIES, family, svm
from formulations.language.program import Duality
from formulations.language.toy_data import two_blobs
from polyopt import verify as module
from polyopt.verify import falls_short, verification_table, verify

SCIP = "SCIP" in cp.installed_solvers()


# At seed 0 every family demonstrates itself (tests/whole/test_docstrings.py).
@pytest.mark.parametrize("name", FAMILIES)
def test_every_program_is_proven(name):
    checks = verify(1, (name,))
    assert falls_short(checks) == []
    assert {check.family for check in checks} == {name}
    for name in {check.program for check in checks}:
        passed = {c.solver for c in checks if c.program == name and c.verdict == "ok"} - {"recovered"}
        # SCIP, which is optional, is the only one for quadratic integer programs.
        least = (
            SCIP
            if re.match(r"cpm\w*\.mixed_integer", name)
            else 1 + SCIP
            if re.match(r"(l0|polyceptron)\.mixed_integer", name)
            else 2
        )
        assert len(passed) >= least, f"{name} has too few solvers: {passed}"
    values = [c for c in checks if c.verdict == "ok"]
    assert max(c.difference for c in values) <= 1e-6
    assert max(c.residual for c in values) <= 1e-6


def shortfall(monkeypatch, pair):
    monkeypatch.setattr(family("svm"), "pairs", lambda seed=0: [pair])
    return falls_short(verify(0, ("svm",)))


def test_a_wrong_dual_falls_short(monkeypatch):
    """The pair of another C is a pair of other values."""
    X, y = two_blobs()
    right = Duality(svm.primal(X, y, 1.0), svm.dual(X, y, 1.0), lambda v: svm.recover(X, y, 1.0, v["alpha"]))
    assert shortfall(monkeypatch, right) == []
    wrong = Duality(svm.primal(X, y, 1.0), svm.dual(X, y, 1.1), right.recover)
    assert "svm.dual" in shortfall(monkeypatch, wrong)


def test_a_wrong_recovery_falls_short(monkeypatch):
    X, y = two_blobs()

    def off(v):
        point = svm.recover(X, y, 1.0, v["alpha"])
        return {**point, "b": point["b"] + 0.01}

    pair = Duality(svm.primal(X, y, 1.0), svm.dual(X, y, 1.0), off)
    assert shortfall(monkeypatch, pair) == ["svm.primal"]


def test_an_integer_program_is_not_held_to_what_is_not_installed(monkeypatch):
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["CLARABEL", "HIGHS", "OSQP", "SCS"])
    checks = verify(0, ("cpm", "l0"))
    found = {(c.program, c.solver): (c.verdict, c.where) for c in checks if "mixed_integer" in c.program}
    for name in ("cpm.mixed_integer", "cpm.mixed_integer_max_worst"):
        assert found[(name, "scip")] == ("not run", "not installed")
    assert found[("l0.mixed_integer", "highs")][0] == "ok"
    assert len(found) == 3
    assert falls_short(checks) == []


@pytest.mark.parametrize("name", ["sigma", "b"])
def test_an_integer_program_with_a_wrong_point_falls_short(monkeypatch, name):
    (program,) = family("l0").singles(0)
    original = program.solve

    def off(*arguments, **options):
        solution = original(*arguments, **options)
        return replace(solution, primal={**solution.primal, name: solution[name] + 1.0})

    program.solve = off
    monkeypatch.setattr(family("l0"), "pairs", lambda seed=0: [])
    monkeypatch.setattr(family("l0"), "singles", lambda seed=0: [program])
    assert falls_short(verify(0, ("l0",))) == ["l0.mixed_integer"]


def test_the_table_names_what_is_not_proven():
    checks = verify(0, ("svm",))
    console = Console(width=120, color_system=None)

    def printed(rows):
        with console.capture() as capture:
            console.print(verification_table(rows, 120))
        return capture.get()

    text = printed(checks)
    assert "NOT proven" not in text
    for check in checks:
        assert check.program in text
    broken = [module.Check(**{**vars(checks[0]), "verdict": "FAILS"}), *checks[1:]]
    assert f"NOT proven: {checks[0].program}" in printed(broken)
