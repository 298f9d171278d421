"""Every exercise accepts its solution, and refuses what is wrong with a sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyopt.exercises as book
from polyopt.exercises import cpm, exercises
from polyopt.exercises.exercise import Formula, Number

ALL = exercises()


@pytest.mark.parametrize("name", ALL)
def test_the_solution_is_right_and_three_answers_are_wrong(name):
    exercise = ALL[name]
    found = exercise.check(exercise.solution)
    assert found, f"{name}: {found}"
    assert str(found).startswith("Right. ")
    assert len(exercise.mistakes) >= 3
    for answer, why in exercise.mistakes:
        judged = exercise.check(answer)
        assert not judged, f"{name} accepts {answer!r}"
        if isinstance(exercise, Formula | Number):
            assert judged.text == why


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("answer", [None, "nonsense (", [], {}, np.nan, [[np.inf]], print], ids=str)
def test_what_is_no_answer_is_refused_with_a_sentence(name, answer):
    judged = ALL[name].check(answer)
    assert not judged
    assert str(judged).startswith("Not yet. ")


@pytest.mark.parametrize("name", ALL)
def test_what_is_read_is_whole_and_fits_a_terminal(name):
    exercise = ALL[name]
    for text in (exercise.title, exercise.task, exercise.hint, exercise.why):
        assert text.strip()
    assert all(len(line) <= 80 for line in repr(exercise).splitlines())
    assert getattr(book, name) is exercise


def test_a_formula_in_other_words_is_right_too():
    assert ALL["svm_1"].check("Σⱼ αⱼ − 1/2 Σᵢⱼ yᵢ yⱼ αᵢ αⱼ Kᵢⱼ")
    assert not ALL["svm_1"].check("Σⱼ αⱼ − 1/3 Σᵢⱼ yᵢ yⱼ αᵢ αⱼ Kᵢⱼ")
    assert ALL["plume_3"].check("1 = Σₖ pᵢₖ")


def test_what_svm_5_asks_for_can_be_proven_by_others_and_not_by_those_that_break_a_rule():
    best = np.array([0.0, 0.75, 1.0, 1.0, 0.75, 0.0])
    assert ALL["svm_5"].check(best)
    assert not ALL["svm_5"].check(best + 0.1 * np.eye(6)[0])
    assert not ALL["svm_5"].check(0.5 * best)
    assert not ALL["svm_5"].check(best * [1, 1, 1.1, 1.1, 1, 1])


def test_the_best_assignment_of_cpm_3_is_the_best_of_all():
    solution = ALL["cpm_3"].solution
    values = {bits: cpm._value(bits) for bits in np.ndindex(2, 2, 2, 2, 2, 2) if bits[0] == 0}
    assert min(values, key=values.get) == tuple(solution)
    assert min(values.values()) == pytest.approx(cpm.loss(ALL["cpm_4"].solution), rel=1e-6)


def test_an_exercise_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match="rmm_99"):
        book.rmm_99  # noqa: B018
    with pytest.raises(AttributeError, match="nothing"):
        book.nothing  # noqa: B018
    assert all(re.fullmatch(r"[a-z0-9]+_\d+", name) for name in ALL)
    assert {name.rpartition("_")[0] for name in ALL} == {
        chapter.replace("certificates", "certificate") for chapter in book.CHAPTERS
    }
