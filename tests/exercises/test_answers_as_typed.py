"""Answers as people type them: signs and words are read, what is hostile or odd is refused in a sentence."""

import warnings

import numpy as np
import pytest

from polyopt.exercises import exercises
from polyopt.exercises.certificates import claim
from polyopt.exercises.exercise import Formula
from polyopt.exercises.typed import as_read

ALL = exercises()
FORMULAS = [name for name, one in ALL.items() if isinstance(one, Formula)]
TYPED = {
    "svm_1": (
        "sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j K_ij",
        "Σi αi − 0.5 * Σij αi αj yi yj Kij",
        "1'α − ½ (α∘y)'K(α∘y)",
        "sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j K(x_i, x_j).",
        "sum_i alpha_i - (1/2)*sum_ij alpha_i*alpha_j*y_i*y_j*K_ij",
    ),
    "svm_2": ("y'alpha = 0", "sum_i alpha_i y_i == 0", "2 Σᵢ αᵢ yᵢ = 0", "0 = −Σᵢ αᵢ yᵢ"),
    "rmm_1": ("1/2 (w'x_i + b)^2 <= B^2/2", "1/2 (w·x_i + b)**2 <= 1/2 B^2"),
    "rmm_2": ("sum_i alpha_i - 1/2 delta^T K delta - B sum_i(lambda_i + lambda^*_i)",),
    "rmm_5": ("(1-D)/2 ||w||^2 + D/2 w' Σ w + sum_i C_i xi_i",),
    "cpm_1": ("sum_ik alpha_ik - 1/4 sum_k ||sum_i alpha_ik y_i x~_i||^2",),
    "polyceptron_5": ("sum_i u_i - R sum_l (s^+_l + s^-_l)",),
    "l0_1": ("1'α + sum_i C_i xi_i",),
    "l0_2": ("sum_i u_i - sum_j C_j s_j",),
    "plume_2": (
        "sum_i C_i [log(sum_k exp(-gamma S_ik)) + sum_k R_ik (gamma S_ik - "
        "ln(1/(1 + exp(-y_i S_ik))))] + rho/2 ||W||^2",
    ),
    "plume_3": ("sum_k p_ik = 1", "sum_k p_ik - 1 = 0"),
}


@pytest.mark.parametrize(
    ("name", "answer"), [(name, answer) for name, answers in TYPED.items() for answer in answers]
)
def test_formula_typed_otherwise_is_right(name, answer):
    """A formula in ASCII, with primes or other factors, is read."""
    judged = ALL[name].check(answer)
    assert judged, f"{name}, {answer}: {judged}"


@pytest.mark.parametrize("name", FORMULAS)
def test_own_notation_is_read(name):
    """Every formula has been typed otherwise, and its own notation is read as it stands."""
    solution = ALL[name].solution
    assert name in TYPED
    assert as_read(solution) == solution


def test_factor_and_sign_are_told():
    """A turned sign, a factor, LaTeX and an empty equation are told."""
    assert ALL["svm_1"].check("½ Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ − Σᵢ αᵢ").text == "Its sign is turned."
    assert "It is 2 times" in ALL["svm_1"].check("2 Σᵢ αᵢ − Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ").text
    assert "It is 2 times the row" in ALL["rmm_1"].check("(w·xᵢ + b)² ≤ B²").text
    assert "LaTeX is not read" in ALL["svm_1"].check(r"\sum_i \alpha_i").text
    for nothing in ("0 = 0", "0 Σᵢ αᵢ yᵢ = 0", "Σᵢ αᵢ yᵢ = Σᵢ αᵢ yᵢ", "Σᵢ αᵢ yᵢ ≥ 0"):
        assert not ALL["svm_2"].check(nothing), nothing
    assert not ALL["rmm_1"].check("−½(w·xᵢ + b)² ≤ −½B²")


class Hostile:
    """Raises whatever is done with it."""

    def _raise(self, *_given, **_named):
        raise ZeroDivisionError

    __float__ = __array__ = __iter__ = __len__ = __call__ = __str__ = _raise


NESTED: list = []
NESTED.append(NESTED)
ODD = [
    Hostile(), NESTED, 10**400, [10**400] * 6, [np.nan] * 6, [[np.nan] * 2] * 2, [[np.inf] * 2] * 2,
    ([np.nan, 1.0], 0.0), ([1e300, 1e300], 1e300), (np.nan, 0.0), (1e200, 0.0), "(" * 900, "Σᵢ " * 300,
    "1+" * 20_000 + "1", "9^9^9^9^9", "1/0", "\x1b[31m", "\x00", "{", "}", r"\frac", r"\tilde", r"\evil x",
    b"abc", 1j, {1, 2}, lambda: 1 / 0, list("000111"), "000111", [0.4] * 3 + [1.7] * 3, [0.3, 3.2],
    np.ma.masked_array([1, 2, 3], [0, 1, 0]), {"max_iter": 10**9},
]  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_hostile_answers_are_refused(name):
    """Odd and hostile answers are refused in a short sentence, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for answer in ODD:
            judged = ALL[name].check(answer)
            assert not judged, f"{name} accepts {answer!r}"
            text = str(judged)
            assert text.startswith("Not yet. ")
            assert len(text) < 500
            assert "\x1b" not in text
            assert "\x00" not in text


def test_number_may_be_given_for_each():
    """A number may be given for each sample or once; a claim may have no other parts."""
    assert not ALL["certificate_3"].check({**claim(), "more": 1})
    assert ALL["svm_3"].check([0.125, 0.125])
    assert not ALL["svm_3"].check([0.125, 0.25])
    assert ALL["plume_1"].check([0.731, 0.269])
    assert not ALL["plume_1"].check([0.74, 0.26])


@pytest.mark.parametrize("name", ALL)
def test_dots_are_no_answer(name):
    """The dots of a notebook are no answer."""
    assert ALL[name].check(...).text == "Put your answer in the place of the dots."


@pytest.mark.parametrize("name", ["svm_1", "svm_3", "l0_4"])
def test_form_of_answer_is_said(name):
    """An exercise says how its answer is written, and what its data are."""
    assert ALL[name].form in repr(ALL[name]).replace("\n", " ")
    assert ALL[name].form
    assert "Its data are in .data: X, y." in repr(ALL["rmm_3"])
