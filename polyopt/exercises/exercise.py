"""What an exercise is: a task, an answer that is judged, a hint, and a solution."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from formulations.notation.tokens import UnreadableError
from formulations.printed import Trial
from formulations.statement import Row, Statement

__all__ = ["Exercise", "Find", "Formula", "Number", "Verdict", "wrong"]

_WIDTH = 79
_TOLERANCE = 1e-9


@dataclass(frozen=True, repr=False)
class Verdict:
    """Whether an answer is right, and what there is to say of it.

    It is true where the answer is right, and prints as a sentence.
    """

    is_right: bool
    text: str

    def __bool__(self) -> bool:
        return self.is_right

    def __str__(self) -> str:
        return textwrap.fill(("Right. " if self.is_right else "Not yet. ") + self.text, _WIDTH)

    def __repr__(self) -> str:
        return str(self)


def wrong(text: str) -> Verdict:
    """That an answer is not right, and why."""
    return Verdict(False, text)


@dataclass(frozen=True, kw_only=True)
class Exercise(ABC):
    """A task whose answer :meth:`check` judges.

    Attributes
    ----------
    title : str
        What it is about.
    task : str
        What is to be done. Data are attributes of :attr:`data`.
    hint : str
        Where to look.
    solution : object
        An answer that is right.
    why : str
        Why it is.
    data : dict of str to object
        What the task speaks of.
    mistakes : tuple of (object, str)
        Answers that come to mind and are wrong, with what is wrong with them.
    """

    title: str
    task: str
    hint: str
    solution: Any
    why: str
    data: dict[str, Any] = field(default_factory=dict)
    mistakes: tuple[tuple[Any, str], ...] = ()

    def check(self, answer: object) -> Verdict:
        """Judge an answer.

        Parameters
        ----------
        answer : object
            Of the kind that the task asks for.

        Returns
        -------
        Verdict
            True where it is right; it prints as a sentence, which says how an answer is wrong.
        """
        try:
            found = self._judge(answer)
        except (TypeError, ValueError, KeyError, IndexError, UnreadableError) as error:
            return wrong(f"This is no answer of the kind that is asked for: {error}.")
        return Verdict(True, self.why) if found is None else wrong(found)

    @abstractmethod
    def _judge(self, answer: Any) -> str | None:
        """What is wrong with an answer, as a sentence; None where it is right."""

    def __repr__(self) -> str:
        return f"{self.title}\n\n" + "\n".join(textwrap.fill(part, _WIDTH) for part in self.task.split("\n"))


@dataclass(frozen=True, kw_only=True, repr=False)
class Formula(Exercise):
    """A formula of a program is asked for; any that is worth the same on random numbers is right.

    Attributes
    ----------
    program : callable
        Makes the program.
    of : str
        ``"objective"``, or the name of a row.
    """

    program: Callable[[], Statement]
    of: str = "objective"

    @cached_property
    def _trials(self) -> list[Trial]:
        return [Trial(self._made, seed) for seed in range(3)]

    @cached_property
    def _made(self) -> Statement:
        return self.program()

    @cached_property
    def letters(self) -> dict[str, str]:
        """What the letters of the program stand for, besides its variables."""
        return dict(self._made.letters)

    def _differs(self, formula: str) -> bool:
        return any(not self._difference(trial, formula) <= _TOLERANCE for trial in self._trials)

    def _difference(self, trial: Trial, formula: str) -> float:
        if self.of == "objective":
            return trial.objective(formula)
        sides = formula.split("=")
        if self._row.is_equality and len(sides) == 2:  # may stand either way round
            return min(trial.row(formula, self._row), trial.row(f"{sides[1]} = {sides[0]}", self._row))
        return trial.row(formula, self._row)

    @cached_property
    def _row(self) -> Row:
        return next(row for row in self._made.rows if row.name == self.of)

    def _judge(self, answer: Any) -> str | None:
        if not isinstance(answer, str):
            raise TypeError("a formula is a text, such as 'Σᵢ αᵢ'")
        for mistake, text in self.mistakes:
            if self._reads_as(answer, str(mistake)):
                return text
        return "On random numbers it is worth something else." if self._differs(answer) else None

    def _reads_as(self, one: str, other: str) -> bool:
        """Whether two formulas are one: the same text or, of an objective, as far from the right one."""
        if one.split() == other.split():
            return True
        if self.of != "objective":
            return False
        pairs = [(trial.objective(one), trial.objective(other)) for trial in self._trials]
        return all(far > 0.0 and abs(near - far) <= _TOLERANCE * far for near, far in pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class Number(Exercise):
    """A number, or several in an array, is asked for.

    Attributes
    ----------
    tolerance : float
        How far off each may be.
    """

    tolerance: float = 1e-6

    def _judge(self, answer: Any) -> str | None:
        given, known = np.asarray(answer, dtype=float), np.asarray(self.solution, dtype=float)
        if given.shape != known.shape:
            raise ValueError(f"its shape is {given.shape}, not {known.shape}")
        if np.abs(given - known).max() <= self.tolerance:
            return None
        for mistake, text in self.mistakes:
            if (
                np.shape(mistake) == given.shape
                and np.abs(given - np.asarray(mistake)).max() <= self.tolerance
            ):
                return text
        return "The number is another one." if given.ndim == 0 else "Some of the numbers are others."


@dataclass(frozen=True, kw_only=True, repr=False)
class Find(Exercise):
    """Something with a property is asked for, and the property is checked.

    Attributes
    ----------
    judge : callable
        What is wrong with an answer, as a sentence; None where it is right.
    """

    judge: Callable[[Any], str | None]

    def _judge(self, answer: Any) -> str | None:
        return self.judge(answer)
