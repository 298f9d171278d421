"""Certificates: what breaks one, and what does not."""

import copy
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from polyopt.check import check as checker
from polyopt.exercises.exercise import exercises_of

_X = np.array([[-2.0], [-1.0], [0.5], [0.0], [1.0], [3.0]])
_Y = np.array([-1, -1, -1, 1, 1, 1])


@cache
def _saved() -> tuple[Any, str]:
    from polyopt import SVM

    certificate = SVM(1.0, kernel="linear").fit(_X, _Y).certificate()
    with tempfile.TemporaryDirectory() as folder:
        file, data = Path(folder) / "claim.json", Path(folder) / "data.svm"
        (made,) = certificate.save(file, data=data)
        return made, data.read_text(encoding="utf-8")


def claim() -> Any:
    """Return a claim about the support vector machine of six samples, to be changed: a dict."""
    return copy.deepcopy(_saved()[0])


def _refusal(changed: Any) -> str | None:
    """Why the checker refuses a claim; None where it proves it."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.svm"
        data.write_text(_saved()[1], encoding="utf-8")
        try:
            checker.check(changed, str(data), lambda text: None)
        except checker.Refused as why:
            return str(why)
    return None


def _read(changed: Any) -> dict[str, Any]:
    changed = changed() if callable(changed) else changed
    if not isinstance(changed, dict):
        raise TypeError("a claim is a dict, such as polyopt.exercises.certificates.claim()")
    return changed


def _judge_broken(changed: Any) -> str | None:
    changed = _read(changed)
    parts = {
        ("data", "program"): "The data and the program are to stay as they are.",
        ("claim",): "The numbers of the claim are to stay as they are.",
        ("point",): "The point is to stay as it is.",
    }
    for names, sentence in parts.items():
        if any(changed.get(name) != claim()[name] for name in names):
            return sentence
    return None if _refusal(changed) else "The checker still proves it."


def _broken() -> Any:
    return _with(("multipliers", "rows", "margin"), [[0] * len(_Y)])


def _with(path: tuple[Any, ...], value: Any) -> Any:
    made = inner = claim()
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


def _judge_true(changed: Any) -> str | None:
    changed = _read(changed)
    if set(changed) != set(claim()):
        return "It is to have the parts of claim(), and no others."
    if {**changed, "title": ""} == {**claim(), "title": ""}:
        return "Nothing is changed but its title, perhaps."
    why = _refusal(changed)
    return None if why is None else f"The checker refuses it: {why}."


EXERCISES = exercises_of(
    "certificates",
    certificate_2={
        "judge": _judge_broken, "solution": _broken,
        "mistakes": (
            (claim, "Nothing is changed."),
            (lambda: _with(("claim", "gap"), 0), "The numbers of the claim were changed."),
            (lambda: _with(("data", "features"), 2), "The data were changed."),
        ),
    },
    certificate_3={
        "judge": _judge_true, "solution": lambda: _with(("claim", "gap"), 1),
        "mistakes": (
            (claim, "Nothing is changed."),
            (lambda: _with(("claim", "gap"), -1), "No gap is below 0."),
            (lambda: _with(("claim", "bound"), 5), "The bound is above the optimum."),
        ),
    },
)  # fmt: skip
