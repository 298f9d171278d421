"""One sentence for one fault, whichever public function is given it: programs, certificates, estimators."""

import inspect
import re
from functools import partial
from numbers import Integral, Real

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import polyopt
from formulations import cpm, l0, pc_slp, plume, polyceptron, rmm, sigma_svm, spla1, svm
from formulations.families import hinge_families
from formulations.language import arguments
from polyopt import compare

rng = np.random.default_rng(0)
X, y = rng.normal(size=(12, 2)), np.tile([1.0, -1.0], 6)
K, ones, chosen = X @ X.T, np.ones(12), np.zeros(12, dtype=int)
W, w = rng.normal(size=(2, 3)), rng.normal(size=3)
SMALL = svm.primal(X, y)


def number(low, high, *, closed=(False, False), none=False):
    """Whether a value is a number in a range, each end of which may be part of it."""

    def holds(value):
        if value is None:
            return none
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
            return False
        return low < value < high or (closed[0] and value == low) or (closed[1] and value == high)

    return holds


def integer(low, none=False):
    def holds(value):
        if value is None:
            return none
        return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_)) and value >= low

    return holds


# What a rule asks for in words, and whether a value meets it.
RULES = {
    "positive": ("be positive and finite", number(0, np.inf)),
    "positive-or-inf": ("be positive", number(0, np.inf, closed=(False, True))),
    "not-negative": ("be at least 0 and finite", number(0, np.inf, closed=(True, False))),
    "from-0": ("be at least 0", number(0, np.inf, closed=(True, True))),
    "from-1": ("be at least 1", number(1, np.inf, closed=(True, True))),
    "share": ("lie in [0, 1]", number(0, 1, closed=(True, True))),
    "tolerance": ("be between 0 and 1", number(0, 1)),
    "seconds": ("be seconds, at least 0, or None", number(0, np.inf, closed=(True, False), none=True)),
    "count": ("be an integer of at least 1", integer(1)),
    "count-or-none": ("be an integer of at least 1, or None", integer(1, none=True)),
    "count-from-0": ("be an integer of at least 0", integer(0)),
}

BOX = "C=positive radius=positive-or-inf"
MODEL = "ridge=not-negative gamma=not-negative"
PROGRAMS = [
    (svm.primal, (X, y), "C=positive"),
    (rmm.qp, (X, y), "C=positive B=not-negative"),
    (sigma_svm.primal, (X, y), "C=positive D=share"),
    (cpm.fixed_assignment, (X, y), "C=positive n_faces=count"),
    (polyceptron.cell, (X, y), BOX),
    (pc_slp.step, (X, y, 2, chosen), BOX),
    (spla1.cell, (X, y), "C=positive ridge=positive"),
    (plume.m_step, (X, y, np.full((12, 2), 0.5)), "C=positive gamma=not-negative ridge=positive"),
    (l0.as_l0_data, (K, y), "C=positive"),
    (SMALL.solve, (), "time_limit=seconds max_iter=count-or-none"),
]
STEPS = "tol=tolerance max_iter=count-from-0"
CERTIFICATES = [
    (polyopt.certify_svm, (X, y), f"C=positive-or-inf {STEPS}"),
    (polyopt.certify_rmm, (X, y), f"C=positive-or-inf B=from-0 {STEPS}"),
    (polyopt.certify_sigma_svm, (X, y), f"C=positive-or-inf D=share {STEPS}"),
    (polyopt.certify_cpm, (X, y), f"C=positive {STEPS}"),
    (polyopt.certify_one_norm, (K, y), "C=positive tol=tolerance"),
    (polyopt.certify_l0, (K, y), "C=positive tol=tolerance"),
    (polyopt.certify_spla1, (X, y, W), "C=positive ridge=positive tol=tolerance"),
    (polyopt.certify_plume, (X, y, W), f"C=positive {MODEL} tol=tolerance"),
    (polyopt.certify_pc_slp, (X, y, W), f"{BOX} tol=tolerance"),
    (polyopt.certify_polyceptron, (X, y, W), f"{BOX} tol=tolerance"),
]
LIMITS = "tol=tolerance time_limit=seconds"
OTHERS = [
    (hinge_families, (y,), "C=positive B=from-0"),
    (polyopt.rmm_path, (X, y), f"{LIMITS} C=positive certificate_tol=tolerance"),
    (polyopt.CrossEntropySettings, (), "max_iter=count patience=count n_init=count n_samples=count"),
    (polyopt.cross_entropy_minimize, (len, 3), "time_limit=seconds max_iter=count patience=count"),
    (compare.compare, ([],), "time_limit=seconds"),
]


def fitted(machine):
    def fit(**parameters):
        return machine().set_params(**parameters).fit(X, y)

    fit.__name__ = machine.__name__
    return fit


FACES = "n_faces=count n_init=count max_iter=count time_limit=seconds"
HINGE = f"{LIMITS} C=positive max_iter=count-or-none"
MACHINES = [
    (polyopt.SVM, HINGE),
    (polyopt.RelativeMarginMachine, f"{HINGE} B=from-1 bound_cost=positive-or-inf"),
    (polyopt.SigmaSVM, f"{HINGE} D=share"),
    (polyopt.OneNormSVM, "C=positive time_limit=seconds"),
    (polyopt.CrossEntropySVM, "C=positive time_limit=seconds"),
    (
        polyopt.ConvexPolytopeMachine,
        f"{LIMITS} C=positive n_faces=count max_iter=count sgd__feature_scale=positive "
        "penalty__l1=not-negative penalty__group=not-negative",
    ),
    (
        polyopt.Polyceptron,
        f"{FACES} radius=positive-or-inf passes__step=positive passes__threshold=not-negative "
        "passes__patience=count-or-none",
    ),
    (polyopt.PCSLP, f"{FACES} radius=positive-or-inf"),
    (polyopt.SPLA1, f"{FACES} ridge=positive tol=tolerance patience=count inner=count"),
    (polyopt.PLUME, f"{FACES} {MODEL} tol=tolerance em__inner=count-or-none"),
]
ESTIMATORS = [(fitted(machine), (), rules) for machine, rules in MACHINES]
GROUPS = {"programs": PROGRAMS, "certificates": CERTIFICATES, "others": OTHERS, "estimators": ESTIMATORS}
CASES = [
    (function, given, *argument.split("="))
    for function, given, rules in PROGRAMS + CERTIFICATES + OTHERS + ESTIMATORS
    for argument in rules.split()
]
# What a function needs besides the argument that is wrong.
NEEDED = {
    "C": ones, "n_faces": 2, "assignment": chosen, "ridge": 0.1, "gamma": 1.0, "W": W, "w": w[:2],
    "alpha": ones, "b": 0.0, "B": 2.0, "D": 0.5,
}  # fmt: skip


def called(name):
    """An argument as a sentence calls it; one of a group of parameters by its own name."""
    return name.rpartition("__")[2]


def call(function, given, name, value):
    """Call a function with one argument as given, and what else it must have."""
    known = list(inspect.signature(function).parameters.values())[len(given) :]
    needed = [p.name for p in known if p.default is inspect.Parameter.empty or p.name in ("w", "W")]
    return function(*given, **{**{n: NEEDED[n] for n in needed if n in NEEDED}, name: value})


def text_of(value):
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(max_value=0),
    st.text(max_size=5),
    st.none(),
    st.booleans(),
    st.complex_numbers(max_magnitude=9.0),
    st.sampled_from(
        [np.nan, np.inf, -np.inf, -1.0, 0, 0.0, 1.5, "1", np.float32(-1), np.int64(0), np.True_, {}]
    ),
)


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_one_sentence_for_one_fault(group, data):
    """A drawn bad value of a drawn argument is refused with the sentence of its rule."""
    cases = [case for case in CASES if any(case[0] is function for function, *_ in group)]
    function, given_first, name, rule = data.draw(st.sampled_from(cases), label="argument")
    value = data.draw(VALUES, label="value")
    text, holds = RULES[rule]
    assume(not holds(value))
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole sentence is compared
        call(function, given_first, name, value)
    assert str(raised.value) == f"{called(name)} must {text}, not {text_of(value)}"


@pytest.mark.parametrize(("function", "given_first", "name", "rule"), CASES)
def test_arrays_are_no_numbers(function, given_first, name, rule):
    """Each argument refuses arrays with the sentence of its rule."""
    text, _ = RULES[rule]
    for value in ([0.5, 0.5, 0.5], [], np.ones((2, 2)), [[1.0], [1.0, 2.0]]):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole sentence is compared
            call(function, given_first, name, value)
        if name == "C" and function not in [function for function, *_ in ESTIMATORS]:
            assert str(raised.value).startswith("C must be ")  # an array of costs has faults of its own
        else:
            assert str(raised.value) == f"{called(name)} must {text}, not {text_of(value)}"


@pytest.mark.parametrize(
    "machine", [polyopt.SVM, polyopt.ConvexPolytopeMachine, polyopt.PLUME, polyopt.OneNormSVM]
)
def test_weights_have_one_sentence(machine):
    """Weights that are no numbers, or too few, are named by every machine."""
    for weights in (["a"] * 12, [None] * 12, [0.0] * 12):
        with pytest.raises(ValueError, match="sample_weight must be positive and finite"):
            machine().fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match=re.escape("sample_weight must have shape (12,), not (11,)")):
        machine().fit(X, y, sample_weight=ones[:11])


TINY = 5e-324
BESIDE_1 = [np.nextafter(1.0, 0.0), 1, 1.0, np.nextafter(1.0, 2.0), 2]
CHECKS = {
    "positive": partial(arguments.positive, "C"),
    "positive-or-inf": partial(arguments.positive, "C", infinite=True),
    "not-negative": partial(arguments.at_least, "C", low=0.0),
    "from-0": partial(arguments.at_least, "C", low=0.0, infinite=True),
    "from-1": partial(arguments.at_least, "C", low=1.0, infinite=True),
    "share": partial(arguments.within, "C", low=0.0, high=1.0),
    "tolerance": partial(arguments.tolerance, name="C"),
    "seconds": arguments.seconds,
    "count": partial(arguments.whole, "C"),
    "count-or-none": partial(arguments.whole_or_none, "C"),
    "count-from-0": partial(arguments.whole, "C", low=0),
}


@pytest.mark.parametrize("rule", CHECKS)
@pytest.mark.parametrize("value", [-TINY, -1, 0, 0.0, TINY, *BESIDE_1, 1e308, np.inf, None])
def test_rules_take_their_whole_range(rule, value):
    """The ends of each range, and the floats next to them, are taken or refused by the rule."""
    text, holds = RULES[rule]
    if holds(value):
        assert CHECKS[rule](value) == value
    else:
        with pytest.raises(ValueError, match=re.escape(text)):
            CHECKS[rule](value)
