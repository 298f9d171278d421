"""Kernel machines: LIBSVM's model files, and scikit-learn's ``SVC``, which keeps its numbers as LIBSVM does.

Of k classes there are k(k-1)/2 machines, one for each pair. A support vector of class i has k-1 coefficients:
number j-1 is of the pair with a class j behind i, and number j of one before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.arguments import real_array
from polyopt.foreign.answer import Answer, Samples, gamma_by, label_among
from polyopt.kernels import Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sklearn.svm import SVC

    from formulations.matrices import Vector

__all__ = ["read_libsvm", "read_svc"]

_KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf"}
_OTHER_LABELS = "the labels are not those that this {} was fitted to"
_DIGITS = 8  # that LIBSVM writes of a support vector


def read_svc(machine: SVC, samples: Samples) -> list[Answer]:
    """Solutions of a fitted ``SVC``, one for each pair of classes.

    Parameters
    ----------
    machine : SVC
        Of scikit-learn, or of a package with the same attributes.
    samples : Samples
        What it was fitted to.

    Raises
    ------
    ValueError
        A kernel without a form, or other samples than those of the fit.
    """
    name = type(machine).__name__
    if machine.kernel not in _KERNELS.values():
        shown = machine.kernel if isinstance(machine.kernel, str) else "of your own"
        raise ValueError(f"a claim needs the kernel linear, poly or rbf; that of this {name} is {shown!r}")
    coefficients = machine.dual_coef_
    coefficients = real_array(
        "dual_coef_", coefficients.toarray() if sp.issparse(coefficients) else coefficients
    )
    places, k = np.asarray(machine.support_), len(machine.classes_)
    if places.max(initial=-1) >= samples.n or not _are_rows(machine.support_vectors_, samples, places):
        raise ValueError(f"this {name} was fitted to other samples: its support vectors are not among them")
    classes = [label_among(label, samples.classes) for label in machine.classes_]
    b = real_array("intercept_", machine.intercept_)
    if k == 2:  # scikit-learn has turned what LIBSVM found
        coefficients, b = -coefficients, -b
    kernel = Kernel(machine.kernel, _gamma_of(machine, samples), int(machine.degree), float(machine.coef0))
    parts = [np.flatnonzero(samples.y[places] == label) for label in classes]
    if sum(map(len, parts)) != len(places):
        raise ValueError(_OTHER_LABELS.format(name))
    order, counts = (
        np.concatenate(parts),
        [len(part) for part in parts],
    )  # by class, which not all packages do
    places, coefficients = places[order], coefficients[:, order]
    weights = np.ones(samples.n)
    for label, weight in zip(classes, np.broadcast_to(machine.class_weight_, k), strict=True):
        weights[samples.y == label] = weight
    found = _pairs(name, samples, classes, places, coefficients, counts, b)
    if any((answer.multipliers["margin"] < 0).any() for answer in found if answer.multipliers):
        raise ValueError(_OTHER_LABELS.format(name))
    told = {"C": float(machine.C)}
    return [replace(answer, kernel=kernel, costs=told, weights=weights, intercept="free") for answer in found]


def _are_rows(vectors: Any, samples: Samples, places: NDArray[Any]) -> bool:
    """Whether these are the samples at these places."""
    own = samples.X[places]
    if vectors.shape != own.shape:
        return False
    own, vectors = (part.toarray() if sp.issparse(part) else np.asarray(part) for part in (own, vectors))
    return bool((own == vectors).all())


def _gamma_of(machine: Any, samples: Samples) -> float:
    """The number that a fitted machine took."""
    if isinstance(machine.gamma, str):
        known = getattr(machine, "_gamma", None)
        return float(known) if known else gamma_by(machine.gamma, samples)
    return float(machine.gamma)


def _pairs(
    source: str, samples: Samples, classes: Sequence[Any], places: NDArray[Any], coefficients: Vector,
    counts: Sequence[int], b: Vector,
) -> list[Answer]:  # fmt: skip
    """The machines of all pairs; in each, as LIBSVM has it, the first class is on the side +1."""
    k, ends = len(classes), np.concatenate([[0], np.cumsum(counts)])
    if coefficients.shape != (k - 1, len(places)) or len(b) != k * (k - 1) // 2:
        raise ValueError(f"the coefficients of this {source} do not fit its classes and support vectors")
    found = []
    for number, (i, j) in enumerate(combinations(range(k), 2)):
        w = np.zeros(samples.n)
        for own, other in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            w[places[part]] = coefficients[other, part]
        sides = np.where(samples.y == classes[i], 1.0, -1.0)
        answer = Answer(
            source, w, float(b[number]), multipliers={"margin": w * sides}, labels=(classes[j], classes[i])
        )
        later = list(samples.classes).index(classes[i]) > list(samples.classes).index(classes[j])
        found.append(answer if later else answer.turned())
    return found


def read_libsvm(text: str, source: str, samples: Samples) -> list[Answer]:
    """Solutions in a model file of LIBSVM, one for each pair of classes.

    Parameters
    ----------
    text : str
        The file.
    source : str
        What it is called.
    samples : Samples
        What it was trained on; the file has the support vectors to eight digits, by which they are found.

    Raises
    ------
    ValueError
        A broken file, another program than C-SVC, or support vectors that are no samples.
    """
    head, _, body = text.partition("\nSV")
    fields = dict(line.split(" ", 1) for line in head.splitlines() if " " in line)
    kind, name = fields.get("svm_type", ""), fields.get("kernel_type", "")
    if kind != "c_svc":
        raise ValueError(f"{source} is a model of {kind or 'no kind'}; there is a program for c_svc alone")
    if name not in _KERNELS:
        raise ValueError(f"a claim needs the kernel linear, polynomial or rbf; that of {source} is {name!r}")
    try:
        counts = [int(count) for count in fields["nr_sv"].split()]
        labels, rho = fields["label"].split(), np.array(fields["rho"].split(), dtype=float)
        kernel = Kernel(
            _KERNELS[name],
            float(fields.get("gamma", 1.0)),
            int(fields.get("degree", 3)),
            float(fields.get("coef0", 0)),
        )
        lines = [line.split() for line in body.splitlines() if line.strip()]
        k = len(labels)
        coefficients = np.array([line[: k - 1] for line in lines], dtype=float).reshape(-1, k - 1).T
        vectors = [[cell.split(":") for cell in line[k - 1 :]] for line in lines]
        keys = [_key({int(j) - 1: float(x) for j, x in cells}) for cells in vectors]
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"{source} is a broken model file of LIBSVM ({type(error).__name__}: {error})"
        ) from None
    if not np.isfinite(coefficients).all() or not np.isfinite(rho).all():
        raise ValueError(f"{source} has coefficients that are not finite")
    if k < 2 or len(counts) != k or sum(counts) != len(lines):
        raise ValueError(
            f"{source} is a broken model file of LIBSVM: its support vectors are not those it counts"
        )
    classes = [label_among(label, samples.classes) for label in labels]
    places = _places(source, samples, classes, keys, counts)
    found = _pairs(source, samples, classes, places, coefficients, counts, -rho)
    return [replace(answer, kernel=kernel, intercept="free") for answer in found]


def _key(cells: dict[int, float]) -> tuple[tuple[int, str], ...]:
    """A sample as LIBSVM writes it."""
    return tuple((j, f"{x:.{_DIGITS}g}") for j, x in sorted(cells.items()) if x)


def _places(
    source: str, samples: Samples, classes: Sequence[Any], keys: Sequence[Any], counts: Sequence[int]
) -> NDArray[Any]:
    """Where the support vectors are among the samples of their class."""
    from polyopt.certificates.claims.file import cells_of

    where: dict[Any, list[int]] = defaultdict(list)
    for i in range(samples.n - 1, -1, -1):  # the first of equal ones is taken first
        where[str(samples.y[i]), _key(cells_of(samples.X[[i]])[0])].append(i)
    found = []
    owners = np.repeat(np.arange(len(classes)), counts).tolist()
    for number, (own, key) in enumerate(zip(owners, keys, strict=True), start=1):
        rows = where[str(classes[own]), key]
        if not rows:
            raise ValueError(
                f"support vector {number} of {source} is no sample of class {classes[own]}: it was trained "
                "on other data, or on scaled ones (give those)"
            )
        found.append(rows.pop())
    return np.array(found, dtype=int)
