"""``solver="exact"`` alone is the explicit program of a method; of the CPM it is its own interior point."""

from __future__ import annotations

import pytest

from formulations.language import program as program_module
from formulations.language.toy_data import two_blobs
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySettings,
    CrossEntropySVM,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
)
from polyopt.cpm import alternating as cpm_problem

FEW = CrossEntropySettings(n_samples=20, max_iter=3)
FACES = {"n_init": 1, "max_iter": 5, "random_state": 0}
# Each machine, its other solvers, and the family of its program.
MACHINES = {
    "svm": (SVM(kernel="linear"), ("decomposition", "interior-point"), "svm"),
    "sigma-svm": (SigmaSVM(kernel="linear"), ("decomposition", "interior-point"), "sigma_svm"),
    "rmm": (RelativeMarginMachine(B=2.0, kernel="linear"), ("decomposition", "interior-point"), "rmm"),
    "one-norm": (OneNormSVM(), ("highs",), "one_norm"),
    "l0": (CrossEntropySVM(search=FEW, random_state=0), ("ce", "one-norm", "highs", "global"), "l0"),
    "cpm": (ConvexPolytopeMachine(2, **FACES), ("dual", "sgd", "global"), "cpm"),
    "polyceptron": (Polyceptron(2, **FACES), ("batch", "online", "highs", "global"), "polyceptron"),
    "spla1": (SPLA1(2, **FACES), ("newton", "bfgs"), "spla1"),
    "pc-slp": (PCSLP(2, **FACES), ("highs",), "pc_slp"),
    "plume": (PLUME(2, **FACES), ("newton", "bfgs", "gradient"), "plume"),
}
CASES = [(name, solver) for name, (_, others, _) in MACHINES.items() for solver in ("exact", "auto", *others)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "solver"), CASES)
def test_exact_and_no_other_solver_is_the_explicit_program(name, solver, monkeypatch):
    solve, asked = program_module.solve, []

    def recorded(program, *arguments, **settings):
        asked.append(program.name.split(".")[0])
        return solve(program, *arguments, **settings)

    def recorded_faces(*arguments):
        asked.append("cpm")
        return faces(*arguments)

    faces = cpm_problem.FixedAssignmentSolver  # the program of the faces, solved without cvxpy
    monkeypatch.setattr(program_module, "solve", recorded)
    monkeypatch.setattr(cpm_problem, "FixedAssignmentSolver", recorded_faces)
    machine, _, family = MACHINES[name]
    X, y = two_blobs(n=24, m=2, seed=0)
    solver_ = machine.set_params(solver=solver).fit(X, y).solver_
    assert solver == "auto" or solver_ == solver
    explicit = solver_ == "exact" or (name, solver_) in {("polyceptron", "global"), ("l0", "highs")}
    assert set(asked) == ({family} if explicit else set())


@pytest.mark.parametrize("name", MACHINES)
def test_every_solver_of_a_machine_is_looked_at(name):
    machine, others, _ = MACHINES[name]
    with pytest.raises(ValueError, match="'solver' parameter") as refused:
        machine.set_params(solver="none").fit([[0.0], [1.0]], [0, 1])
    allowed = {"auto", "exact", *others}
    assert all(f"'{solver}'" in str(refused.value) for solver in allowed)
    assert str(refused.value).count("'") == 2 * (len(allowed) + 2)
