"""Every program of the catalogue: proofs by every solver, known optima, multipliers, data and parameters.

A program is tested by being registered: pairs and singles come from its family, and the makers of programs
are called with :func:`arguments`, which has a value for every parameter name.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.programs import ENTRIES

from formulations import FAMILIES, family
from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from formulations.language.notation.parser import GREEK
from formulations.language.program import Program
from formulations.language.toy_data import separated_clusters, two_blobs
from polyopt.methods.programs import pairs_of, singles_of
from polyopt.verify import falls_short, verify

SCIP = "SCIP" in cp.installed_solvers()
by_family = pytest.mark.parametrize("name", FAMILIES)
by_program = pytest.mark.parametrize("program", [pytest.param(e.program, id=e.name) for e in ENTRIES])


# -- proofs and optima ------------------------------------------------------------------------------

# By family: what its pairs attain on the data they are shown on, and what programs come to at a point.
KNOWN = tomllib.loads(Path(__file__).with_name("optima.toml").read_text(encoding="utf-8"))
PAIRS = {name: pairs_of(name, family(name)) for name in FAMILIES}
SINGLES = {name: singles_of(name, family(name)) for name in FAMILIES}
OPTIMA = [
    pytest.param(pair, optimum, id=pair.primal.name)
    for name in FAMILIES
    for pair, optimum in zip(PAIRS[name], KNOWN[name], strict=True)
]
OPTIMA_OF_SINGLES = [
    pytest.param(program, optimum, id=program.name)
    for name, known in KNOWN["singles"].items()
    for program, optimum in zip(SINGLES[name], known, strict=True)
]
# The multipliers of a constraint are variables of the other side, where both are unique.
UNIQUE = ["svm", "sigma_svm", "rmm", "soft_rmm", "rmm_bounded", "rmm_bounds", "polyceptron", "one_norm"]


@by_family
def test_verify_proves_every_program(name):
    """On data other than its own, two solvers at least prove a program, its dual and the recovery map."""
    checks = verify(1, (name,))
    assert falls_short(checks) == []
    assert {check.family for check in checks} == {name} == {c.program.partition(".")[0] for c in checks}
    for program in {check.program for check in checks}:
        passed = {c.solver for c in checks if c.program == program and c.verdict == "ok"} - {"recovered"}
        # SCIP, which is optional, is the only solver of quadratic integer programs.
        least = 2
        if re.match(r"cpm\w*\.mixed_integer", program):
            least = int(SCIP)
        elif re.match(r"(l0|polyceptron)\.mixed_integer", program):
            least = 1 + SCIP
        assert len(passed) >= least, f"{program} has too few solvers: {passed}"


@pytest.mark.parametrize(("pair", "optimum"), OPTIMA)
def test_primal_equals_dual_equals_known_optimum(pair, optimum):
    """Both sides attain the optimum of before, and so does the point recovered from the dual."""
    for program in (pair.primal, pair.dual):
        solution = program.solve()
        assert solution.objective == pytest.approx(optimum, rel=1e-4)
        assert set(solution.primal) == set(program.variables)
        assert max(program.violations(solution.primal).values(), default=0.0) < 1e-6
        for row in program.rows:
            above = sum(side.shape[0] for side in row.constraint.args[1:]) if row.is_cone else 0
            shape = row.constraint.shape
            assert solution.duals[row.name].shape == ((1 + above, *shape) if row.is_cone else shape)
    recovered = pair.recover(solution.primal)
    assert max(pair.primal.violations(recovered).values(), default=0.0) < 1e-6
    assert pair.primal.value(recovered) == pytest.approx(solution.objective, rel=1e-5)


@pytest.mark.parametrize(("program", "optimum"), OPTIMA_OF_SINGLES)
def test_program_without_dual_has_known_optimum(program, optimum):
    """Integer programs and the subproblem attain the optimum of before."""
    if program.kind == "MIQP" and not SCIP:
        pytest.skip("SCIP is not installed")
    assert program.solve().objective == pytest.approx(optimum, rel=1e-4)


def measured(program):
    """The objective at a point drawn, and a weighted sum of both sides of all constraints there."""
    draw = np.random.default_rng(7)
    for name in sorted(program.variables):
        variable = program.variables[name]
        variable.save_value(draw.uniform(0.1, 0.4, variable.shape))
    sides = [part for row in program.rows for part in row.constraint.args]
    values = [np.asarray(side.value, dtype=float).ravel() for side in sides]
    return float(program.problem.objective.value) + sum(
        float(np.cos(np.arange(len(each)) + place) @ each) for place, each in enumerate(values)
    )


@by_family
def test_programs_at_a_point_are_known(name):
    """Constraints that do not bind are those of before, and so are the numbers a program is shown with.

    Left out are coordinates of a kernel's features, which processors may turn.
    """
    programs = [side for pair in PAIRS[name] for side in (pair.primal, pair.dual)] + SINGLES[name]
    known = KNOWN["at_a_point"][name]
    found = [np.nan if np.isnan(at) else measured(each) for each, at in zip(programs, known, strict=True)]
    assert found == pytest.approx(known, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", UNIQUE)
def test_multipliers_are_variables_of_the_other_side(name):
    """A constraint whose multiplier is named after a variable of the other program has its value."""
    compared = 0
    for pair in pairs_of(name, family(name), seed=1):
        sides = pair.primal, pair.dual
        for side, other in (sides, sides[::-1]):
            duals, variables = side.solve().duals, other.solve().primal
            for row in side.rows:
                if row.multiplier in variables:
                    expected = variables[row.multiplier]
                    size = max(np.abs(expected).max(), 1.0)
                    assert duals[row.name] == pytest.approx(expected, abs=1e-5 * size), (side.name, row.name)
                    compared += 1
    assert compared


# -- the makers of programs, called with data -------------------------------------------------------

N = 18


def arguments(module, name):
    """The arguments of a maker, by the names of its parameters."""
    X, y = two_blobs(n=N, m=2, seed=2)
    faces = np.arange(N) % 2
    if module.endswith("cpm_margins"):  # of classes that faces can separate
        X, y, cluster = separated_clusters(n=N)
        faces = np.where(y > 0, cluster, faces)
        if "face" in name:
            X = X + 3.0 * y[:, None]
    U = 1.2 * X[::4] + 0.1
    Z = np.vstack([X, U]) if module.endswith("rmm_bounded") else X
    known = {
        "X": X, "y": y, "U": U, "K": Z @ Z.T, "C": np.where(y > 0, 1.0, 0.5), "B": 1.3, "D": 0.4, "E": 2.0,
        "n_faces": faces.max() + 1, "assignment": faces, "s": 1, "scale": 0.3, "M": 1, "radius": 10.0,
        "owners": Owners(1, 2), "R": np.full((N, 2), 0.5), "gamma": 1.5, "ridge": 0.1, "bias_ridge": 0.1,
        "penalty": FacePenalty.of(2, l1=0.5), "sigma": faces, "weights": None, "margin": 0.5,
        "alpha": np.zeros(N), "lam": np.zeros(N), "lam_star": np.zeros(N), "free": np.arange(6),
    }  # fmt: skip
    if module.endswith("l0"):
        known["C"] = 0.02  # caps that bind
    if module.endswith(".cpm"):
        known["margin"] = "total"
    if module.endswith("logistic_polytopes"):
        known["assignment"] = np.where(y > 0, 1 + faces, 0)
    taken = inspect.signature(getattr(import_module(module), name)).parameters
    return {key: known[key] for key in taken if key in known}


def makers():
    """Every public function of a family that makes a program of data, as (module, name)."""
    found = []
    for place in dict.fromkeys(FAMILIES.values()):
        for name, thing in vars(import_module(place)).items():
            if inspect.isfunction(thing) and thing.__module__ == place and not name.startswith("_"):
                signature = inspect.signature(thing)
                is_program = signature.return_annotation in ("Program", Program)
                if is_program and {"X", "K"} & set(signature.parameters) and name != "soft_margin":
                    found.append((place, name))
    return found


MAKERS = makers()


def maker(module, name):
    return getattr(import_module(module), name)


def made(module, name, **changes):
    """The program of a maker, with some arguments other than those of :func:`arguments`."""
    return maker(module, name)(**{**arguments(module, name), **changes})


CONTINUOUS = [pair for pair in MAKERS if pair[1] not in ("mixed_integer", "subset_face", "integer_face")]


def by_maker(makers):
    """Parametrise a test over makers of programs."""
    return pytest.mark.parametrize(("module", "name"), makers, ids=lambda part: part.rpartition(".")[2])


@cache
def optimum(module, name):
    """The optimum of a maker's program."""
    return made(module, name).solve().objective


@by_maker(MAKERS)
def test_maker_is_in_the_catalogue(module, name):
    """A family lists the program that each of its makers states, if with slack or of another margin."""
    if name == "kernel_dual" and module.endswith("rmm_bounded"):
        program = made(module, name, D=None)
    else:
        program = made(module, name)
    assert program.name in {entry.name for entry in ENTRIES}


@by_maker(MAKERS)
def test_parameter_has_one_default_everywhere(module, name):
    """What is left out means the same in all programs."""
    usual = {"C": 1.0, "ridge": 1e-3, "radius": 1e4, "gamma": 1.0, "loss": "sum", "weights": None}
    taken = inspect.signature(maker(module, name)).parameters
    for each in set(usual) & set(taken):
        assert taken[each].default in (usual[each], inspect.Parameter.empty), each


@by_maker([pair for pair in CONTINUOUS if "X" in arguments(*pair)])
def test_sparse_samples_state_the_same_program(module, name):
    """CSR arrays in place of X and U leave the optimum as it is."""
    given = arguments(module, name)
    sparse = {key: sp.csr_array(given[key]) for key in ("X", "U") if key in given}
    found = made(module, name, **sparse).solve().objective
    assert found == pytest.approx(optimum(module, name), rel=1e-9)


@by_maker([pair for pair in CONTINUOUS if {"X", "C"} <= set(arguments(*pair))])
def test_cost_is_repetition(module, name):
    """A sample of twice the cost is the sample twice."""
    given = arguments(module, name)
    counts = np.arange(N) % 3 + 1
    if "rmm" in module and "D" in given:
        given["D"] = None  # the cost of a bound is not that of a margin
    samples = {"X", "y", "assignment", "R", "C"} & set(given)
    repeated = {**given, **{key: np.repeat(given[key], counts, axis=0) for key in samples}}
    weighted = {**given, "C": given["C"] * counts, **({"weights": counts} if "weights" in given else {})}
    values = [maker(module, name)(**each).solve().objective for each in (weighted, repeated)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@by_maker([pair for pair in CONTINUOUS if {"C", "E"} & set(arguments(*pair)) and pair[1] != "subproblem"])
def test_new_parameters_need_no_new_program(module, name):
    """A program whose parameters are set has the optimum of one that is stated with them."""
    program, given = made(module, name), arguments(module, name)
    assert program.problem.is_dcp(dpp=True)
    before = program.solve().objective
    moved = {key: 1.3 * given[key] for key in ("B", "E", "D") if key in given}
    if "C" in given:
        moved["C"] = 0.03 if module.endswith("l0") else np.linspace(0.2, 3.0, N)
    if "R" in given:
        moved["R"] = np.tile([0.2, 0.8], (N, 1))
    if "sigma" in given:
        moved["sigma"] = np.arange(N) < 3
    if {"Z", "P"} & set(program.parameters):
        moved["assignment"] = given["assignment"][::-1]
    fresh = made(module, name, **moved)
    expected = fresh.solve()
    again = program.set(**{key: each.value for key, each in fresh.parameters.items()}).solve()
    assert again.objective == pytest.approx(expected.objective, rel=1e-8)
    assert not np.isclose(before, expected.objective, rtol=1e-3)


REFUSED = {  # by parameter: values, and what is said
    "X": ([np.full((N, 2), np.nan), np.zeros(N), np.zeros((0, 2))], "X must .*(finite|two dimensions)"),
    "y": ([np.zeros(N), np.full(N, np.nan), np.ones((N, 1))], "y must"),
    "U": ([np.zeros((3, 5)), np.full((3, 2), np.nan), np.zeros(3)], "further samples|U must"),
    "K": ([np.full((N, N), np.nan)], "must be finite"),
    "C": ([0.0, -1.0, np.nan, np.inf], "C must be positive and finite"),
    "B": ([-0.1, np.inf, np.nan], "B must be at least 0 and finite"),
    "D": ([-1.0, np.nan, np.inf], "D must (be|lie)"),
    "E": ([0.0, np.inf, np.nan], "E must be positive and finite"),
    "n_faces": ([0, 1.5], "n_faces must be an integer of at least 1"),
    "assignment": ([np.zeros(N - 1), np.full(N, 9), np.full(N, -1)], "assignment must"),
    "loss": (["hinge"], "loss must be 'sum' or 'max', not 'hinge'"),
    "margin": (["mean", -1.0, np.nan], "margin must"),
    "s": ([0, 1.5], "s must be an integer of at least 1"),
    "scale": ([0.0, np.nan], "scale must be positive and finite"),
    "M": ([0], "M must be an integer of at least 1"),
    "radius": ([0.0, -1.0, np.nan], "radius must be positive"),
    "ridge": ([0.0, -1.0, np.nan], "ridge must be positive and finite"),
    "bias_ridge": ([0.0, np.nan], "bias_ridge must be positive and finite"),
    "gamma": ([-1.0, np.inf, np.nan], "gamma must be at least 0 and finite"),
    "penalty": ([FacePenalty.of(3, l1=1.0)], "penalty must be for 2 features, not 3"),
    "R": ([np.ones((N, 2)), np.full((2, 2), 0.5), np.full((N, 2), np.nan)], "responsibilities must"),
    "sigma": ([np.full(N, 0.5), np.zeros(3)], "sigma must"),
    "given": ([[1, 0, 1], np.full(2, 0.5), np.ones(2)], r"given must be 0 or 1, of shape \(2,\)"),
    "weights": ([np.zeros(N), -np.ones(N), np.full(N, np.nan), np.ones(3)], "weights must"),
    "free": ([[], [-1], [N]], "free must hold sample numbers from 0 to 17"),
}


@by_maker(MAKERS)
def test_wrong_argument_is_named(module, name):
    """Each argument out of its range is refused by its name."""
    for parameter in set(REFUSED) & set(inspect.signature(maker(module, name)).parameters):
        values, sentence = REFUSED[parameter]
        for value in values:
            with pytest.raises(ValueError, match=sentence):
                made(module, name, **{parameter: value})


# -- names and labels -------------------------------------------------------------------------------


def test_names_are_unique_and_paired():
    """Each program has a name of its own, and its dual, or is an integer program or the subproblem."""
    names = {entry.name for entry in ENTRIES}
    assert len(names) == len(ENTRIES)
    pairs = [pair for name in FAMILIES for pair in PAIRS[name]]
    for pair in pairs:
        assert {pair.primal.sense, pair.dual.sense} == {"minimise", "maximise"}
    alone = names - {program.name for pair in pairs for program in (pair.primal, pair.dual)}
    families = {"cpm", "cpm_subset", "cpm_integer", "polyceptron", "l0"}
    integer = {f"{each}.mixed_integer" for each in families} | {"cpm.mixed_integer_max_worst"}
    assert alone == {"rmm.subproblem", *integer}
    assert {entry.program.kind for entry in ENTRIES} == {"LP", "QP", "QCQP", "SDP", "EXP", "MILP", "MIQP"}


@by_program
def test_program_is_named_throughout(program):
    """Constraints have names of their own, signs are constraints, and the source has a year."""
    assert not any(v.attributes["nonneg"] or v.attributes["bounds"] for v in program.variables.values())
    names = [row.name for row in program.rows]
    assert len(set(names)) == len(names)
    assert re.match(r".*(\(\d{4}\)|\bslides\b)", program.source)
    told = "{0, 1}" in str(program) or "∈ Z" in str(program)
    assert told == program.problem.is_mixed_integer()


def test_letters_of_slack_multipliers_are_not_reused():
    """Within a family, the letter of a slack's multiplier (β) is defined as nothing else in any program."""
    of_slack, defined = defaultdict(set), defaultdict(set)
    for entry in ENTRIES:
        of = entry.program.name.partition(".")[0]
        slacks = [row.multiplier for row in entry.program.rows if row.name.startswith("slack")]
        of_slack[of] |= {GREEK.get(letter, letter) for letter in slacks}
        defined[of] |= {letter.split("_")[0].rstrip("ᵢⱼₖ") for letter in entry.program.letters}
    assert {"svm", "sigma_svm", "rmm", "cpm"} <= {of for of in of_slack if "β" in of_slack[of]}
    assert all(not of_slack[of] & defined[of] for of in of_slack)


def test_face_of_the_other_class_is_refused():
    """An assignment gives each sample a face of its own class."""
    owners, y = Owners(1, 1), np.array([1.0, -1.0, 1.0, -1.0])
    assert owners.assignment_matrix(y, [1, 0, 1, 0]).tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="gives sample 2 face 0"):
        owners.assignment_matrix(y, [1, 0, 0, 1])
