"""Every exercise accepts its solution, and refuses what is wrong with a sentence."""

import re
from itertools import product

import numpy as np
import pytest

import polyopt.exercises as book
from polyopt.exercises import cpm, exercises
from polyopt.exercises.exercise import Formula, Number

ALL = exercises()


@pytest.mark.parametrize("name", ALL)
def test_solution_is_right(name):
    """Every exercise accepts its solution, and refuses three mistakes with what is wrong."""
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
def test_nonsense_is_refused(name, answer):
    """What is no answer is refused with a sentence."""
    judged = ALL[name].check(answer)
    assert not judged
    assert str(judged).startswith("Not yet. ")


@pytest.mark.parametrize("name", ALL)
def test_task_is_whole(name):
    """Every exercise has its texts, and fits a terminal of 80 columns."""
    exercise = ALL[name]
    for text in (exercise.title, exercise.task, exercise.hint, exercise.why):
        assert text.strip()
    assert all(len(line) <= 80 for line in repr(exercise).splitlines())
    assert getattr(book, name) is exercise


def test_formula_in_other_words_is_right():
    """A formula with other indices, order or fractions is right, with another factor wrong."""
    assert ALL["svm_1"].check("Σⱼ αⱼ − 1/2 Σᵢⱼ yᵢ yⱼ αᵢ αⱼ Kᵢⱼ")
    assert not ALL["svm_1"].check("Σⱼ αⱼ − 1/3 Σᵢⱼ yᵢ yⱼ αᵢ αⱼ Kᵢⱼ")
    assert ALL["plume_3"].check("1 = Σₖ pᵢₖ")


def test_proof_of_svm_5_keeps_rules():
    """Multipliers prove the optimum if they keep every rule, and not otherwise."""
    best = np.array([0.0, 0.75, 1.0, 1.0, 0.75, 0.0])
    assert ALL["svm_5"].check(best)
    assert not ALL["svm_5"].check(best + 0.1 * np.eye(6)[0])
    assert not ALL["svm_5"].check(0.5 * best)
    assert not ALL["svm_5"].check(best * [1, 1, 1.1, 1.1, 1, 1])


def test_best_assignment_is_best_of_all():
    """Of all 32 assignments of cpm_3 the solution alone is accepted, with the loss of cpm_4."""
    task = ALL["cpm_3"]
    right = [bits for bits in product((0, 1), repeat=6) if bits[0] == 0 and task.check(bits)]
    assert right == [tuple(task.solution)]
    told = task.check((0,) * 6).text
    assert f"{cpm.loss(ALL['cpm_4'].solution):.4g}" in told


def test_unknown_exercise_is_named():
    """An exercise that is not there is named; the others are named by their chapters."""
    with pytest.raises(AttributeError, match="rmm_99"):
        book.rmm_99  # noqa: B018
    with pytest.raises(AttributeError, match="nothing"):
        book.nothing  # noqa: B018
    assert all(re.fullmatch(r"[a-z0-9]+_\d+", name) for name in ALL)
    assert {name.rpartition("_")[0] for name in ALL} == {
        chapter.replace("certificates", "certificate") for chapter in book.CHAPTERS
    }
