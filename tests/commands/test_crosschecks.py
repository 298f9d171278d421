"""Every cross-check holds, and would not if what it looks at were wrong."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from rich.console import Console

from polyopt.crosschecks import all_checks, crosscheck_table, run
from polyopt.crosschecks.registry import Crosscheck, Outcome, Registry, deviation

CROSSCHECKS = all_checks()
BY_NAME = {check.name: check for check in CROSSCHECKS}


@cache
def numbers(name):
    return BY_NAME[name].evaluate(seed=1)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_crosscheck_holds(name):
    """Every identity and inequality of the package holds on data other than its own."""
    check = BY_NAME[name]
    try:
        difference, computed, expected = deviation(check.relation, *numbers(name))
    except ModuleNotFoundError as reason:
        pytest.skip(str(reason))
    assert check.holds(difference), f"{computed!r} {check.relation} {expected!r}: off by {difference:.2e}"


@pytest.mark.parametrize("name", BY_NAME)
def test_ten_tolerances_are_caught(name):
    """A number that is off by ten tolerances fails its check."""
    check = BY_NAME[name]
    try:
        computed, expected = (np.asarray(values, dtype=float) for values in numbers(name))
    except ModuleNotFoundError as reason:
        pytest.skip(str(reason))
    scale = np.abs(expected).max() or 1.0
    off = 10.0 * max(check.tolerance, 1e-9) * scale
    if check.relation == "=":
        wrong = [computed + off, computed - off]
    elif check.relation in ("≤", "≥"):
        wrong = [expected + (off if check.relation == "≤" else -off)]
    else:  # too little room, and none at all
        wrong = [expected + (0.1 if check.relation == ">" else -0.1) * check.tolerance * scale, expected]
    for values in wrong:
        assert not check.holds(deviation(check.relation, values, expected)[0])


def test_list_is_whole_with_sources():
    """Identities are numbered without a gap, and each names its paper."""
    assert len(BY_NAME) == len(CROSSCHECKS) >= 45
    identities = {int(found[1]) for name in BY_NAME if (found := re.fullmatch(r"T(\d\d)[a-c]?", name))}
    assert identities == set(range(1, 49)) - {26}  # of kernel LDA, which is a baseline of the benchmarks
    assert sum(name.startswith("N") for name in BY_NAME) >= 5
    for check in CROSSCHECKS:
        assert re.search(r"\(\d{4}\)|slides|formulations\.", check.source), check.name
        assert not check.identity.endswith(".")
        assert check.source != check.identity


# -- how a check is decided -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "computed", "expected", "difference", "pair"),
    [
        ("=", [1.0, 4.4], [1.0, 4.0], 0.1, (4.4, 4.0)),
        ("=", [0.0, 0.3], 0.0, 0.3, (0.3, 0.0)),  # absolute, where nothing is expected
        ("≤", [1.0, 3.0], [2.0, 4.0], 0.0, (1.0, 2.0)),
        ("≤", [1.0, 5.0], [2.0, 4.0], 0.25, (5.0, 4.0)),
        ("≥", [1.0, 5.0], [2.0, 4.0], 0.25, (1.0, 2.0)),
        (">", [3.0, 6.0], [2.0, 4.0], 0.25, (3.0, 2.0)),  # the least room
        ("<", [3.0, 1.0], [2.0, 4.0], -0.25, (3.0, 2.0)),
        ("=", np.nan, 1.0, np.inf, None),
        ("≤", -np.inf, 1.0, np.inf, None),
        (">", np.inf, 1.0, -np.inf, None),
    ],
)
def test_difference_is_that_of_the_worst_place(relation, computed, expected, difference, pair):
    """The difference is relative to the largest expected number, and infinite if a number is."""
    found, *place = deviation(relation, computed, expected)
    assert found == pytest.approx(difference)
    assert pair is None or tuple(place) == pair


def registered(evaluate, relation="=", tolerance=1e-6):
    def pairs(seed):
        yield evaluate(seed)

    pairs.__doc__ = f"""Return pairs.

    T99 | {relation} {tolerance} | eq. (1) | A sum is
        itself.
    """
    registry = Registry("toy")
    registry.add("Author (2001)")(pairs)
    (check,) = registry
    return check


def test_tolerance_has_two_sides():
    """An equation holds up to its tolerance, a strict inequality by more than it."""
    assert run(registered(lambda seed: (1.0 + 9e-7, 1.0))).verdict == "ok"
    assert run(registered(lambda seed: (1.0 + 2e-6, 1.0))).verdict == "FAILS"
    assert run(registered(lambda seed: (1.0 + 2e-6, 1.0), ">")).verdict == "ok"
    assert run(registered(lambda seed: (1.0 + 9e-7, 1.0), ">")).verdict == "FAILS"


def test_error_of_a_check_is_told():
    """An error fails a check; a missing package leaves it not run."""

    def broken(seed):
        raise ArithmeticError("no\nsuch number")

    def without(seed):
        raise ModuleNotFoundError("needs a solver")

    outcome = run(registered(broken))
    assert (outcome.verdict, outcome.note) == ("FAILS", "ArithmeticError: no such number")
    assert (run(registered(without)).verdict, run(registered(without)).note) == ("not run", "needs a solver")
    assert run(registered(lambda seed: ([], []))).verdict == "FAILS"


def test_docstring_states_the_check():
    """Identity and source are read from the docstring."""
    check = registered(lambda seed: (float(seed), 3.0))
    assert (check.identity, check.source) == ("A sum is itself", "Author (2001), eq. (1)")
    assert [run(check, seed).verdict for seed in (2, 3)] == ["FAILS", "ok"]


def test_table_names_what_fails():
    """The table has every outcome with its relation and tolerance, and counts those that hold."""
    check = Crosscheck("T98", "toy", "=", 1e-6, lambda seed: (1.0, 1.0))
    outcomes = [
        Outcome(BY_NAME["T01"], 1.5, 1.5, 1e-12, 0.1, "ok"),
        Outcome(check, 2.0, 3.0, 0.5, 0.1, "FAILS"),
        Outcome(BY_NAME["T31b"], np.nan, np.nan, np.nan, 0.1, "not run", "needs SCIP"),
        Outcome(BY_NAME["N03"], 1.5, 1.0, 0.5, 0.1, "ok"),
    ]
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(crosscheck_table(outcomes, 120))
    text = capture.get()
    assert "2 of 4 cross-checks hold" in text
    assert "FAILING: T98" in text
    assert "not run: T31b" in text
    assert "needs SCIP" in text
    assert "> 1e-06" in text
    assert "≤ 1e-06" in text
    assert BY_NAME["T01"].identity in text
    assert max(map(len, text.splitlines())) <= 120


def test_families_of_checks():
    """Methods name the files of all checks."""
    assert {check.family for check in CROSSCHECKS} == {"svm", "rmm", "bounds", "cpm", "polyhedral", "l0"}
