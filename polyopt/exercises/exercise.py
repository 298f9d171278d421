"""The kinds of exercises: a task, an answer that is judged, a hint, and a solution; and their texts.

Texts are in ``words/<chapter>.toml``, where they can be edited, or translated, without code.
"""

import textwrap
import tomllib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.consistency import Trial
from formulations.language.statement import Row, Statement
from polyopt.base.text import visible
from polyopt.exercises.typed import as_read


def words_of(chapter: str) -> dict[str, dict[str, Any]]:
    """Return the texts of a chapter's exercises by name: title, task, hint, solution, why and mistakes.

    A line break inside of a text is a space, and an empty line a new paragraph.
    """
    read = (files("polyopt.exercises") / "words" / f"{chapter}.toml").read_text(encoding="utf-8")
    found = tomllib.loads(read)
    for entry in found.values():
        for part, value in entry.items():
            if isinstance(value, str):
                entry[part] = "\n".join(" ".join(one.split()) for one in value.split("\n\n"))
            elif part == "mistakes":
                entry[part] = tuple(tuple(pair) for pair in value)
    return found


_WIDTH = 79
_TOLERANCE = 1e-9


@dataclass(frozen=True, repr=False)
class Verdict:
    """Judgement of an answer: true if it is right; it prints as a sentence with a remark."""

    is_right: bool
    text: str

    def __bool__(self) -> bool:
        return self.is_right

    def __str__(self) -> str:
        return textwrap.fill(("Right. " if self.is_right else "Not yet. ") + self.text, _WIDTH)

    def __repr__(self) -> str:
        return str(self)


def finite(answer: ArrayLike, shape: tuple[int, ...], words: str) -> Any:
    """Convert an answer to an array of finite numbers, or refuse it by `words` on what is asked for."""
    given = np.asarray(answer, dtype=float)
    if given.shape != shape:
        raise ValueError(words)
    if not np.isfinite(given).all():
        raise ValueError("its numbers must be finite")
    return given


def whole(answer: Iterable[Any], words: str) -> tuple[int, ...]:
    """Convert an answer to whole numbers, or refuse it by `words` on what is asked for."""
    given = np.asarray(list(answer), dtype=None)
    if given.ndim != 1 or given.dtype.kind not in "iuf" or not (given == np.round(given)).all():
        raise ValueError(words)
    return tuple(int(one) for one in given)


@dataclass(frozen=True, kw_only=True)
class Exercise(ABC):
    """A task whose answer :meth:`check` judges, with a hint, its data, a right solution and why it is right.

    `mistakes` are answers that come to mind and are wrong, each with what is wrong with it.
    """

    title: str
    task: str
    hint: str
    solution: Any
    why: str
    data: dict[str, Any] = field(default_factory=dict)
    mistakes: tuple[tuple[Any, str], ...] = ()

    def check(self, answer: object) -> Verdict:
        """Judge an answer of the kind that the task asks for."""
        if answer is ...:  # as the notebooks have it
            return Verdict(False, "Put your answer in the place of the dots.")
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._judge(answer)
        except Exception as error:  # whatever an answer does: it may be anything
            return Verdict(False, f"This is no answer of the kind that is asked for: {_said(error)}.")
        return Verdict(True, self.why) if found is None else Verdict(False, found)

    @abstractmethod
    def _judge(self, answer: Any) -> str | None:
        """Say what is wrong with an answer, in a sentence; None if it is right."""

    @property
    def form(self) -> str:
        """Form of an answer, as a sentence; empty if the task says it."""
        return ""

    def __repr__(self) -> str:
        known = f"Its data are in .data: {', '.join(self.data)}." if self.data else ""
        parts = [*self.task.split("\n"), *filter(None, [known, self.form])]
        return f"{self.title}\n\n" + "\n".join(textwrap.fill(part, _WIDTH) for part in parts)


def _said(error: Exception) -> str:
    """Shorten the text of an error, without signs that move a cursor."""
    try:
        text = visible(str(error)) or type(error).__name__
    except Exception:  # an error of a stranger's own
        text = type(error).__name__
    return textwrap.shorten(text, 300, placeholder=" …").removesuffix(".")


@dataclass(frozen=True, kw_only=True, repr=False)
class Formula(Exercise):
    """A formula of a program, `of` it the objective or a row: any of the same value is right."""

    program: Callable[[], Statement]
    of: str = "objective"

    @property
    def form(self) -> str:
        """Form of an answer."""
        return "Give a formula as a text, as 'sum_i alpha_i' or 'Σᵢ αᵢ'."

    @cached_property
    def _trials(self) -> list[Trial]:
        program = self.program()
        return [Trial(program, seed) for seed in range(3)]

    def _difference(self, trial: Trial, formula: str) -> float:
        if self.of == "objective":
            return trial.objective_difference(formula)
        return trial.row_difference(formula, self._row)

    @cached_property
    def _row(self) -> Row:
        return next(row for row in self.program().rows if row.name == self.of)

    def _judge(self, answer: Any) -> str | None:
        if not isinstance(answer, str):
            raise TypeError("a formula is a text, such as 'Σᵢ αᵢ'")
        if len(answer) > 1000:  # ten times the longest solution
            raise ValueError(f"a formula of {len(answer)} letters is not read")
        formula = as_read(answer)
        for mistake, text in self.mistakes:
            if self._reads_as(formula, str(mistake)):
                return text
        differs = any(not self._difference(trial, formula) <= _TOLERANCE for trial in self._trials)
        return self._what_differs(formula) if differs else None

    def _what_differs(self, formula: str) -> str | None:
        """Say what is wrong with a formula of another value, as far as a factor explains it."""
        factor = self._factor(formula)
        if factor is None or factor == 0.0:
            return "On random numbers it is worth something else."
        if self.of != "objective" and self._row.is_equality:
            return None  # the same points satisfy it, either way round
        if factor == -1.0:
            return "Its sign is turned."
        if self.of == "objective":
            return f"It is {factor:.4g} times what is asked for."
        return f"It is {factor:.4g} times the row that is asked for: its multiplier would be another one."

    def _factor(self, formula: str) -> float | None:
        """By which number the right formula is multiplied in this one; None where that is no number."""
        away = [self._difference(trial, formula) for trial in self._trials]
        if not all(abs(one - away[0]) <= _TOLERANCE * (1.0 + away[0]) for one in away):
            return None
        # |factor − 1| is known, and of the turned formula |factor + 1|; an inequality has no other sign.
        if self.of != "objective" and not self._row.is_equality:
            return round(1.0 + away[0], 9)
        turned = "=".join(f"−({side})" for side in formula.split("="))
        back = self._difference(self._trials[0], turned)
        for factor in (1.0 + away[0], 1.0 - away[0]):
            if abs(abs(factor + 1.0) - back) <= 1e-6 * (1.0 + back):
                return round(factor, 9)
        return None

    def _reads_as(self, one: str, other: str) -> bool:
        """True if two formulas are the same text or, of an objective, equally far from the right one."""
        if one.split() == other.split():
            return True
        if self.of != "objective":
            return False
        pairs = [(self._difference(trial, one), self._difference(trial, other)) for trial in self._trials]
        return all(far > 0.0 and abs(near - far) <= _TOLERANCE * far for near, far in pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class Number(Exercise):
    """A number is asked for, or several in an array, each within an absolute tolerance."""

    tolerance: float = 1e-6

    @property
    def form(self) -> str:
        """Form of an answer."""
        count = np.size(self.solution)
        return "Give a number." if count == 1 else f"Give a list of {count} numbers."

    def _judge(self, answer: Any) -> str | None:
        given, known = np.asarray(answer, dtype=float), np.asarray(self.solution, dtype=float)
        if known.ndim == 0 and given.size and (given == given.flat[0]).all():
            given = given.flat[0].reshape(())  # the same number, said several times
        if given.shape != known.shape:
            asked = "one number" if known.ndim == 0 else f"a list of {known.size} numbers"
            raise ValueError(f"its shape is {given.shape}, and {asked} is asked for")
        if not np.isfinite(given).all():
            raise ValueError("it must be finite")
        if np.abs(given - known).max() <= self.tolerance:
            return None
        for mistake, text in self.mistakes:
            is_alike = np.shape(mistake) == given.shape
            if is_alike and np.abs(given - np.asarray(mistake)).max() <= self.tolerance:
                return text
        return "The number is another one." if given.ndim == 0 else "Some of the numbers are others."


@dataclass(frozen=True, kw_only=True, repr=False)
class Find(Exercise):
    """Something with a property is asked for; `judge` says what is wrong with an answer, or None."""

    judge: Callable[[Any], str | None]

    def _judge(self, answer: Any) -> str | None:
        return self.judge(answer)


def exercises_of(chapter: str, **parts: dict[str, Any]) -> dict[str, Exercise]:
    """Return the exercises of a chapter by name: their texts, and `parts` of some that are made by code.

    With a ``program`` a formula is asked for, with ``judge`` something that it judges, else a number.
    """
    found: dict[str, Exercise] = {}
    for name, words in words_of(chapter).items():
        part = parts.get(name, {})
        kind = Formula if "program" in part else Find if "judge" in part else Number
        found[name] = kind(**{**words, **part})
    return found
