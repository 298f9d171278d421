"""Linear machines: LIBLINEAR's model files, and scikit-learn's ``LinearSVC``.

Both pay ½|w|² + ½b² + Σ C_i ξ_i: the intercept is one more weight, of a feature that is 1, and costs like the
others. That is another program than the SVM of the papers, and it is certified as it is. Squared slacks, the
one-norm, logistic losses and features of another number than 1 are not among our programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import real_array
from polyopt.foreign.answer import Answer, Samples, label_among

if TYPE_CHECKING:
    from sklearn.svm import LinearSVC

    from polyopt.foreign.answer import Intercept

__all__ = ["read_liblinear", "read_linear_svc"]

_HINGE = "L2R_L1LOSS_SVC_DUAL"


def read_linear_svc(machine: LinearSVC, samples: Samples) -> list[Answer]:
    """The solution of a fitted ``LinearSVC``.

    Parameters
    ----------
    machine : LinearSVC
        Of scikit-learn.
    samples : Samples
        What it was fitted to.

    Raises
    ------
    ValueError
        A loss or a penalty that we have no program for, more than two classes, or other features.
    """
    if machine.loss != "hinge" or machine.penalty != "l2":
        raise ValueError(
            f"this LinearSVC pays {machine.loss} with the penalty {machine.penalty}; there is a program for "
            "loss='hinge' and penalty='l2' alone (scikit-learn's default, squared_hinge, is another)"
        )
    if machine.fit_intercept and machine.intercept_scaling != 1:
        raise ValueError(f"there is a program for intercept_scaling=1, not {machine.intercept_scaling}")
    if len(machine.classes_) != 2:
        raise ValueError("a LinearSVC of several classes tells each from the rest; give one of two classes")
    w = real_array("coef_", machine.coef_)[0]
    b = float(np.ravel(real_array("intercept_", machine.intercept_))[0])
    low, high = (label_among(label, samples.classes) for label in machine.classes_)
    weights = np.where(samples.y == high, _weight(machine, 1), _weight(machine, 0))
    kind: Intercept = "penalised" if machine.fit_intercept else "none"
    return [
        Answer(
            "LinearSVC",
            w,
            b,
            labels=(low, high),
            intercept=kind,
            costs={"C": float(machine.C)},
            weights=weights,
        )
    ]


def _weight(machine: LinearSVC, place: int) -> float:
    """What the costs of a class are multiplied by."""
    given = machine.class_weight
    if given is None:
        return 1.0
    if isinstance(given, dict):
        return float(given.get(machine.classes_[place], 1.0))
    raise ValueError(
        "give sample_weight in the place of class_weight='balanced', which LinearSVC does not keep"
    )


def read_liblinear(text: str, source: str, samples: Samples) -> list[Answer]:
    """The solution in a model file of LIBLINEAR.

    Parameters
    ----------
    text : str
        The file.
    source : str
        What it is called.
    samples : Samples
        What it was trained on.

    Raises
    ------
    ValueError
        A broken file, or a program that we do not have.
    """
    head, _, body = text.partition("\nw\n")
    fields = dict(line.split(" ", 1) for line in head.splitlines() if " " in line)
    kind = fields.get("solver_type", "").strip()
    if kind != _HINGE:
        raise ValueError(
            f"{source} is of the solver {kind or 'that it does not name'}; there is a program for {_HINGE} "
            "alone (-s 3)"
        )
    try:
        labels, bias, m = fields["label"].split(), float(fields["bias"]), int(fields["nr_feature"])
        w = np.array(body.split(), dtype=float)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{source} is a broken model file of LIBLINEAR ({error})") from None
    if len(labels) != 2:
        raise ValueError(
            f"{source} tells each of {len(labels)} classes from the rest; give one of two classes"
        )
    if bias >= 0 and bias != 1:
        raise ValueError(f"{source} has a bias feature of {bias:g}; there is a program for 1 (-B 1), or none")
    if len(w) != m + (bias >= 0) or not np.isfinite(w).all():
        raise ValueError(f"{source} is a broken model file of LIBLINEAR: it has not {m} finite weights")
    if m > samples.m:
        raise ValueError(f"{source} has {m} features, and the data have {samples.m}")
    high, low = (label_among(label, samples.classes) for label in labels)
    weights = np.concatenate(
        [w[:m], np.zeros(samples.m - m)]
    )  # features behind the last of the training file
    answer = Answer(
        source, weights, float(w[m]) if bias >= 0 else 0.0, labels=(low, high),
        intercept="penalised" if bias >= 0 else "none",
    )  # fmt: skip
    return [answer if list(samples.classes).index(high) else answer.turned()]
