"""A state taken out of the lab: the Python lines that reproduce it, and the certificate's claim as a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyopt.lab.fitting import Fitted

__all__ = ["exported"]

_CLAIM, _DATA = "claim.json", "points.svm"


def exported(fitted: Fitted) -> dict[str, Any]:
    """The Python lines and the claim, as texts.

    fitted: A solved state.
    """
    claim, data, sentence = _claim(fitted)
    return {
        "kind": "export", "python": python_lines(fitted), "claim": claim, "claim_sentence": sentence,
        "claim_name": _CLAIM, "data": data, "data_name": _DATA,
    }  # fmt: skip


def python_lines(fitted: Fitted) -> str:
    """Lines of Python that give the same estimator and the same certificate.

    fitted: A solved state.
    """
    state, name = fitted.state, type(fitted.estimator).__name__
    held = state.assignment
    chosen = {"solver": state.solver if held is None else "exact", **fitted.settings}
    if fitted.method.is_random:
        chosen["random_state"] = state.seed
    settings = ", ".join(
        f"{key}={getattr(value, 'item', lambda value=value: value)()!r}" for key, value in chosen.items()
    )
    points = ",\n".join(
        f"    [{u!r}, {v!r}, {label}]"
        for (u, v), label in zip(state.X.tolist(), state.y.tolist(), strict=True)
    )
    fit = "fit(X, y)" if held is None else f"fit_from(X, y, {held.tolist()}, hold=True)"
    return (
        "import numpy as np\n"
        f"from polyopt import {name}\n\n"
        f"points = np.array([\n{points},\n])\n"
        "X, y = points[:, :2], points[:, 2].astype(int)\n"
        f"model = {name}({settings}).{fit}\n"
        "print(model.certificate())\n"
        "print(model.duals_)\n"
    )


def _claim(fitted: Fitted) -> tuple[str | None, str | None, str]:
    """The claim and the points that it is about; a sentence on them, or on why there are none."""
    with tempfile.TemporaryDirectory(prefix="polyopt-lab-") as folder:
        claim, data = Path(folder) / _CLAIM, Path(folder) / _DATA
        try:
            fitted.certificate.save(claim, data=data)
        except ValueError as error:
            return None, None, f"There is no claim to save: {error}"
        told, points = claim.read_text(encoding="utf-8"), data.read_text(encoding="utf-8")
    return told, points, f"Checked anywhere by: python check.py {_CLAIM} {_DATA}"
