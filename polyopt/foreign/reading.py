"""Which kind of solution it is that somebody gives, and its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.svm import NuSVC
from sklearn.utils.validation import check_is_fitted

from formulations.program import Program
from formulations.solution import Solution
from polyopt.foreign.answer import Answer, Samples
from polyopt.foreign.liblinear import read_liblinear, read_linear_svc
from polyopt.foreign.libsvm import read_libsvm, read_svc
from polyopt.foreign.polytope import read_polytope
from polyopt.foreign.problems import read_problem, read_program, read_solution
from polyopt.foreign.tables import read_archive, read_csv_table, read_fields, read_json, read_table

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["answers_of"]

_FORMS: tuple[tuple[str, Callable[[str, str, Samples], list[Answer]]], ...] = (
    ("svm_type", read_libsvm), ("solver_type", read_liblinear), ("version:", read_polytope),
)  # fmt: skip


def answers_of(solution: object, samples: Samples, names: Sequence[str] | None = None) -> list[Answer]:
    """What a solution says: one answer, or one for each pair of classes.

    Parameters
    ----------
    solution : object
        As in :func:`polyopt.certify_solution`.
    samples : Samples
        What it is of.
    names : sequence of str, optional
        Names of the features.

    Raises
    ------
    ValueError
        It is of no known kind, broken, or of other samples.
    OSError
        A file that cannot be read.
    """
    if isinstance(solution, str | Path):
        return _in_file(Path(solution), samples, names)
    if isinstance(solution, Mapping):
        return [read_fields(solution, "the solution")]
    if isinstance(solution, np.ndarray):
        return [read_table(solution, "the solution")]
    if isinstance(solution, Solution):
        return [read_solution(solution)]
    if isinstance(solution, Program):
        return [read_program(solution)]
    return _of_object(solution, samples)


def _of_object(solution: Any, samples: Samples) -> list[Answer]:
    from cvxpy import Problem

    if isinstance(solution, Problem):
        return [read_problem(solution)]
    name, home = type(solution).__name__, type(solution).__module__
    if home.startswith("polyopt."):
        raise ValueError(f"a fitted {name} has certificate() of its own, and so has a saved model")
    if not hasattr(solution, "fit"):
        raise ValueError(
            f"a {name} is no solution that is known here; give its numbers as {{'w': ..., 'b': ...}}"
        )
    if hasattr(solution, "steps") or hasattr(solution, "best_estimator_"):
        raise ValueError(f"give the machine in this {name}, and the samples as it was fitted to them")
    check_is_fitted(solution)
    if hasattr(solution, "dual_coef_") and hasattr(solution, "C") and not isinstance(solution, NuSVC):
        if not hasattr(solution, "classes_"):
            raise ValueError(f"a {name} is no classifier")
        return read_svc(solution, samples)
    if name == "LinearSVC":
        return read_linear_svc(solution, samples)
    raise ValueError(
        f"a {name} minimises no program that we have; give its coefficients as {{'w': ..., 'b': ...}} to "
        "hear how far they are from the optimum of one that we have"
    )


def _in_file(path: Path, samples: Samples, names: Sequence[str] | None) -> list[Answer]:
    content, source = path.read_bytes(), path.name
    if content.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        return [read_archive(content, source)]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{source} is neither a text nor a file of numpy's") from None
    if "\0" in text:
        raise ValueError(f"{source} is neither a text nor a file of numpy's")
    for word, read in _FORMS:
        if text.startswith(word):
            return read(text.replace("\r\n", "\n"), source, samples)
    if text.lstrip().startswith(("{", "[")):
        return [read_json(text, source)]
    return [read_csv_table(text, source, names)]
