"""Solutions of other packages in our terms: arrays, and objects of scikit-learn, LIBSVM and LIBLINEAR."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array, real_number
from formulations.language.types import Matrix, MatrixLike, Vector
from polyopt.base.text import visible
from polyopt.check.check import plain
from polyopt.estimators.validation import checked_weights, validated_pair
from polyopt.foreign.programs import PROGRAMS
from polyopt.linalg.kernels import Kernel
from polyopt.margin.kernel_classifier import variance
from polyopt.margin.svm import SVM

Intercept: TypeAlias = Literal["free", "penalised", "none"]

ROWS = ("margin", "bound_above", "bound_below")
"""Names of the families of rows that have multipliers."""

_KERNELS = {"linear": "linear", "poly": "poly", "rbf": "rbf", 0: "linear", 1: "poly", 2: "rbf"}
"""Kernels by the names of scikit-learn and the numbers of LIBSVM."""
_C_SVC, _L1_LOSS_DUAL = 0, 3  # numbers of LIBSVM's and LIBLINEAR's programs


@dataclass(frozen=True)
class Answer:
    """A solution for two classes; f = w'x + b or Σ_i w_i k(x_i, x) + b, positive on one side.

    source: name of the solution for messages.
    point: w (m,), or with a kernel signed coefficients (n,) of all samples of all classes, and the intercept
        b, the best one for w if it is missing; or faces W (K, m+1), the bias last; or the point of a program
        of another form.
    multipliers: by the names of their rows, (n,), or (n, K) of a polytope; not negative.
    labels: the labels on the sides -1 and +1; None if unknown.
    intercept: as of :func:`polyopt.certify`; None if unknown.
    C: cost of a unit of slack; None if unknown.
    weights: factors (n,) of the samples' costs by the weights of classes.
    """

    source: str
    point: Mapping[str, Any]
    multipliers: Mapping[str, Vector] = field(default_factory=dict)
    labels: tuple[Any, Any] | None = None
    kernel: Kernel | None = None
    intercept: Intercept | None = None
    C: float | None = None
    weights: Vector | float = 1.0

    def in_form(self, program: str, size: int, of: str) -> dict[str, Any]:
        """Return the point as the program's W, or as w and b, with `size` coefficients `of` the data."""
        point, variables = dict(self.point), PROGRAMS[program].variables
        if variables == ("W",) and "w" in point:
            return {"W": np.append(point["w"], point.get("b", 0.0))[None, :]}
        if variables == ("w", "b") and "W" in point:
            W = point["W"]
            if len(W) != 1:
                raise ValueError(f"{self.source} has {len(W)} faces, and {program} has one")
            point = {"w": W[0, :-1], "b": float(W[0, -1])}
        if "w" in point and point["w"].shape != (size,):
            raise ValueError(
                f"{self.source} has {point['w'].size} coefficients, and the data have {size} {of}"
            )
        return point


@dataclass(frozen=True)
class Samples:
    """The samples of a solution: finite X (n, m), labels y (n,), factors of costs (n,), sorted labels."""

    X: Matrix
    y: NDArray[Any]
    weights: Vector
    classes: NDArray[Any]

    @classmethod
    def of(cls, X: MatrixLike, y: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Check samples X (n, m), labels y (n,) of two classes or more, and weights (n,), 1 by default."""
        checked, labels = validated_pair(SVM(), X, y, accept_sparse="csr", dtype=np.float64)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y must have two classes; all of it is {visible(str(classes[0]))!r}")
        return cls(checked, labels, checked_weights(weights, checked), classes)

    def sides(self, positive: object = None) -> tuple[Any, Any]:
        """Return the labels of the sides -1 and +1: in sorted order, unless `positive` is the label of +1."""
        if len(self.classes) != 2:
            raise ValueError(f"the solution is of two classes, and y has {len(self.classes)}")
        low, high = self.classes
        return (low, high) if positive is None or class_of(positive, self.classes) == high else (high, low)


def gamma_by(rule: str, samples: Samples) -> float:
    """Return a kernel's gamma by scikit-learn's rules "scale" and "auto"."""
    spread = variance(samples.X, np.ones(len(samples.y))) if rule == "scale" else 1.0
    return 1.0 / (samples.X.shape[1] * (spread or 1.0))


def class_of(label: object, classes: NDArray[Any]) -> Any:
    """Return the class that a label stands for; 1, "1" and 1.0 are the same label."""
    for known in classes:
        if plain(known) == plain(label):
            return known
    shown = ", ".join(visible(str(known)) for known in classes[:10])
    raise ValueError(f"{visible(str(label))!r} is no label of the data; there are {shown}")


def read_solution(
    program: str, solution: Any, multipliers: Mapping[str, Any], samples: Samples
) -> list[Answer]:
    """Read the point of :func:`polyopt.certify`: one answer for each pair of classes."""
    if not PROGRAMS[program].has_two_bounds:
        return [_read_point(program, solution, multipliers)]
    if solution is None or isinstance(solution, Mapping):
        return [_read_mapping({**(solution or {}), **multipliers})]
    if isinstance(solution, np.ndarray | list | tuple):
        answers = [_read_table(solution)]
    elif hasattr(solution, "get_sv_coef"):
        answers = _read_libsvm(solution, samples)
    elif hasattr(solution, "get_decfun"):
        answers = [_read_liblinear(solution, samples)]
    else:
        answers = _read_estimator(solution, samples)
    if not multipliers:
        return answers
    if len(answers) > 1:
        raise ValueError("multipliers are of two classes, and the solution has several pairs")
    return [replace(answers[0], multipliers=_read_mapping(multipliers).multipliers)]


# -- arrays ------------------------------------------------------------------------------------


def read_file(path: Path) -> Vector | dict[str, Any]:
    """Read an array of a CSV or ``.npy`` file, or a mapping of a ``.npz`` file."""
    content, source = path.read_bytes(), path.name
    if content.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        try:
            found = np.load(io.BytesIO(content), allow_pickle=False)
            return found if isinstance(found, np.ndarray) else dict(found)
        except Exception as error:  # a broken archive may raise anything
            raise ValueError(
                f"{source} is no file of numpy's that is safe to read ({str(error)[:80]})"
            ) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{source} is neither a text nor a file of numpy's") from None
    return _read_csv(text, source)


def _read_point(program: str, point: Any, multipliers: Mapping[str, Any]) -> Answer:
    """Read a mapping by the names of the program's row in the table; an array is its first variable."""
    row = PROGRAMS[program]
    fields = {**(point if isinstance(point, Mapping) else {row.variables[0]: point}), **multipliers}
    _refuse_unknown(fields, (*row.variables, *row.rows))
    if fields.get(row.variables[0]) is None:
        raise ValueError(f"the point has no {row.variables[0]}")
    own = {name: fields.pop(name) for name in row.rows if name in fields}
    return Answer("the point", fields, own)


def _refuse_unknown(fields: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [visible(str(name)) for name in fields if name not in known]:
        raise ValueError(f"the point has a field {unknown[0]!r}; there are {', '.join(known)}")


def _read_mapping(fields: Mapping[str, Any]) -> Answer:
    """Read a mapping with w and b, or W, and multipliers by the names of their rows."""
    _refuse_unknown(fields, ("w", "b", "W", *ROWS))
    answer = Answer("the point", {}, {row: real_array(row, fields[row]) for row in ROWS if row in fields})
    if "W" in fields:
        return replace(answer, point={"W": np.atleast_2d(real_array("W", fields["W"]))})
    if "w" not in fields:
        if not answer.multipliers:
            raise ValueError("the point has neither w nor W nor multipliers")
        return answer
    w: Any = real_array("w", fields["w"])
    b: Any = fields.get("b")
    if w.ndim == 2 and 1 in w.shape:
        w = w.ravel()
    if w.ndim == 2:
        return replace(answer, point={"W": np.column_stack([w, real_array("b", b, (len(w),))])})
    own_b = {} if b is None else {"b": real_number("b", np.squeeze(b)[()])}
    return replace(answer, point={"w": w, **own_b})


def _read_table(table: ArrayLike) -> Answer:
    """Read a table of weights, the intercept last: a row for each face, or one row or column."""
    source = "the point"
    numbers = real_array(source, table)
    if numbers.ndim == 2 and 1 in numbers.shape:
        numbers = numbers.ravel()
    if numbers.ndim not in (1, 2) or numbers.shape[-1] < 2:
        raise ValueError(f"{source} must hold weights and an intercept; its shape is {numbers.shape}")
    return Answer(source, {"W": np.atleast_2d(numbers)})


def _read_csv(text: str, source: str) -> Vector:
    """Read a CSV table of numbers, without a head."""
    if not text.strip():
        raise ValueError(f"{source} is empty")
    separator = max(",;\t", key=text.count)
    try:
        return np.array([line.split(separator) for line in text.splitlines() if line.strip()], dtype=float)
    except ValueError:  # texts, or rows of several lengths
        raise ValueError(f"{source} is no table of numbers, each row of the same length") from None


# -- fitted objects ----------------------------------------------------------------------------


def _read_estimator(machine: Any, samples: Samples) -> list[Answer]:
    from sklearn.svm import NuSVC
    from sklearn.utils.validation import check_is_fitted

    name, home = type(machine).__name__, type(machine).__module__
    if home.startswith("polyopt."):
        raise ValueError(f"a fitted {name} has certificate() of its own, and so has a saved model")
    if not hasattr(machine, "fit"):
        raise ValueError(
            f"a {name} is no solution that is known here; give its numbers as {{'w': ..., 'b': ...}}"
        )
    if hasattr(machine, "steps") or hasattr(machine, "best_estimator_"):
        raise ValueError(f"give the machine in this {name}, and the samples as it was fitted to them")
    check_is_fitted(machine)
    if hasattr(machine, "dual_coef_") and hasattr(machine, "C") and not isinstance(machine, NuSVC):
        if not hasattr(machine, "classes_"):
            raise ValueError(f"a {name} is no classifier")
        return _read_svc(machine, samples)
    if name == "LinearSVC":
        return [_read_linear_svc(machine, samples)]
    raise ValueError(
        f"a {name} minimises no program that we have; give its coefficients as {{'w': ..., 'b': ...}} to "
        "hear how far they are from the optimum of one that we have"
    )


def _read_svc(machine: Any, samples: Samples) -> list[Answer]:
    """Return the answers of an ``SVC`` of scikit-learn, or of a package with the same attributes."""
    name, k = f"this {type(machine).__name__}", len(machine.classes_)
    coefficients = machine.dual_coef_
    if sp.issparse(coefficients):
        coefficients = coefficients.toarray()
    coefficients, b = real_array("dual_coef_", coefficients), real_array("intercept_", machine.intercept_)
    if k == 2:  # scikit-learn has turned LIBSVM's signs
        coefficients, b = -coefficients, -b
    gamma = machine.gamma
    if isinstance(gamma, str):
        gamma = getattr(machine, "_gamma", None) or gamma_by(gamma, samples)
    kernel = _kernel(name, machine.kernel, gamma, machine.degree, machine.coef0)
    classes = [class_of(label, samples.classes) for label in machine.classes_]
    weights = np.ones(len(samples.y))
    for label, weight in zip(classes, np.broadcast_to(machine.class_weight_, k), strict=True):
        weights[samples.y == label] = weight
    found = _read_pairs(
        name, samples, classes, np.asarray(machine.support_), machine.support_vectors_, coefficients, b
    )
    return [replace(answer, kernel=kernel, C=float(machine.C), weights=weights) for answer in found]


def _read_libsvm(model: Any, samples: Samples) -> list[Answer]:
    """Return the answers of an ``svm_model`` of LIBSVM's Python package, as ``svm_train`` returns it."""
    name, param = "this model of LIBSVM", model.param
    if model.get_svm_type() != _C_SVC:
        raise ValueError(f"{name} is not of C-SVC (-s 0), which alone there is a program for")
    support = np.array(model.get_sv_indices(), dtype=int) - 1  # LIBSVM counts from 1
    if (support < 0).any():
        raise ValueError(f"{name} was read from a file, which does not have its settings: train it again")
    _need_given_weights(name, param, samples)
    kernel = _kernel(name, param.kernel_type, param.gamma, param.degree, param.coef0)
    classes = [class_of(label, samples.classes) for label in model.get_labels()]
    k = len(classes)
    coefficients = real_array("get_sv_coef()", np.array(model.get_sv_coef()).reshape(len(support), k - 1).T)
    vectors = sp.lil_array((len(support), samples.X.shape[1]))
    for i, cells in enumerate(model.get_SV()):
        for j, value in cells.items():
            if j > samples.X.shape[1]:
                raise ValueError(f"{name} has {j} features, and the data have {samples.X.shape[1]}")
            vectors[i, j - 1] = value
    b = -np.array([model.rho[number] for number in range(k * (k - 1) // 2)])
    found = _read_pairs(name, samples, classes, support, vectors, coefficients, b)
    return [replace(answer, kernel=kernel, C=float(param.C)) for answer in found]


def _need_given_weights(name: str, param: Any, samples: Samples) -> None:
    """Refuse a C library's weights of classes that are not given again: its model only points to them."""
    if param.nr_weight and (samples.weights == 1.0).all():
        raise ValueError(f"{name} was trained with weights of classes (-w): give them as sample_weight")


def _kernel(name: str, kind: Any, gamma: float, degree: int, coef0: float) -> Kernel:
    if not isinstance(kind, str | int) or kind not in _KERNELS:
        shown = kind if isinstance(kind, str | int) else "of your own"
        raise ValueError(f"a claim needs the kernel linear, poly or rbf; that of {name} is {shown!r}")
    return Kernel(_KERNELS[kind], float(gamma), int(degree), float(coef0))


def _read_pairs(
    name: str, samples: Samples, classes: Sequence[Any], support: NDArray[Any], vectors: Any,
    coefficients: Vector, b: Vector,
) -> list[Answer]:  # fmt: skip
    """Return the answers for all pairs of classes, from LIBSVM's layout, with the later class on the side +1.

    A support vector of class i has k-1 coefficients (k-1, SVs): number j-1 is of the pair with a class j
    behind i, and number j of one before it. Intercepts are (k(k-1)/2,).
    """
    k = len(classes)
    if coefficients.shape != (k - 1, len(support)) or len(b) != k * (k - 1) // 2:
        raise ValueError(f"the coefficients of {name} do not fit its classes and support vectors")
    if support.max(initial=-1) >= len(samples.y) or not _are_equal(vectors, samples.X[support]):
        raise ValueError(f"{name} was fitted to other samples: its support vectors are not among them")
    found, labels_of_support = [], samples.y[support]
    for number, (i, j) in enumerate(combinations(range(k), 2)):
        first, second = labels_of_support == classes[i], labels_of_support == classes[j]
        w = np.zeros(len(samples.y))
        w[support[first]] = coefficients[j - 1, first]
        w[support[second]] = coefficients[i, second]
        alpha = w * np.where(samples.y == classes[i], 1.0, -1.0)
        labels = (classes[j], classes[i])
        answer = Answer(name, {"w": w, "b": float(b[number])}, {"margin": alpha}, labels, intercept="free")
        found.append(_oriented(answer, samples))
    is_covered = np.isin(labels_of_support, np.array(classes)).all()
    if not is_covered or any((answer.multipliers["margin"] < 0).any() for answer in found):
        raise ValueError(f"the labels are not those that {name} was fitted to")
    return found


def _are_equal(vectors: Any, rows: Any) -> bool:
    if vectors.shape != rows.shape:
        return False
    vectors, rows = (part.toarray() if sp.issparse(part) else np.asarray(part) for part in (vectors, rows))
    return bool((vectors == rows).all())


def _oriented(answer: Answer, samples: Samples) -> Answer:
    """Return the answer with the later of its two classes on the side +1."""
    assert answer.labels is not None
    low, high = (list(samples.classes).index(label) for label in answer.labels)
    if low < high:
        return answer
    turned = {name: -value for name, value in answer.point.items()}
    return replace(answer, point=turned, labels=answer.labels[::-1])


def _read_linear_svc(machine: Any, samples: Samples) -> Answer:
    """Return the answer of a ``LinearSVC``, which minimises ½|w|² + ½b² + Σ C_i ξ_i, as LIBLINEAR does."""
    if machine.loss != "hinge" or machine.penalty != "l2":
        raise ValueError(
            f"this LinearSVC pays {machine.loss} with the penalty {machine.penalty}; there is a program for "
            "loss='hinge' and penalty='l2' alone (scikit-learn's default, squared_hinge, is another)"
        )
    if machine.fit_intercept and machine.intercept_scaling != 1:
        raise ValueError(f"there is a program for intercept_scaling=1, not {machine.intercept_scaling}")
    if len(machine.classes_) != 2:
        raise ValueError("a LinearSVC of several classes tells each from the rest; give one of two classes")
    if machine.class_weight is not None and not isinstance(machine.class_weight, dict):
        raise ValueError(
            "give sample_weight in the place of class_weight='balanced', which LinearSVC does not keep"
        )
    labels = tuple(class_of(label, samples.classes) for label in machine.classes_)
    weights = np.ones(len(samples.y))
    for label, labels_of_support in zip(labels, machine.classes_, strict=True):
        weights[samples.y == label] = float((machine.class_weight or {}).get(labels_of_support, 1.0))
    b = float(np.ravel(real_array("intercept_", machine.intercept_))[0])
    return Answer(
        "LinearSVC", {"w": real_array("coef_", machine.coef_)[0], "b": b}, labels=labels, weights=weights,
        intercept="penalised" if machine.fit_intercept else "none", C=float(machine.C),
    )  # fmt: skip


def _read_liblinear(model: Any, samples: Samples) -> Answer:
    """Return the answer of a ``model`` of LIBLINEAR's Python package, as ``train`` returns it.

    (A model that was read from a file has no C, and nothing tells.)
    The intercept is the weight of a feature that is 1, and costs ½b²; without one (-B -1) it is 0.
    """
    name, param, labels = "this model of LIBLINEAR", model.param, model.get_labels()
    if param.solver_type != _L1_LOSS_DUAL:
        raise ValueError(f"{name} is not of L2R_L1LOSS_SVC_DUAL (-s 3), which alone there is a program for")
    if len(labels) != 2:
        raise ValueError(f"{name} tells each of {len(labels)} classes from the rest; give one of two classes")
    if model.bias >= 0 and model.bias != 1:
        raise ValueError(f"{name} has a bias feature of {model.bias:g}; there is a program for 1, or none")
    _need_given_weights(name, param, samples)
    w, b = model.get_decfun()
    w = real_array("get_decfun()", w)
    if len(w) > samples.X.shape[1]:
        raise ValueError(f"{name} has {len(w)} features, and the data have {samples.X.shape[1]}")
    high, low = (class_of(label, samples.classes) for label in labels)
    w = np.concatenate([w, np.zeros(samples.X.shape[1] - len(w))])  # features that no training sample has
    answer = Answer(
        name, {"w": w, "b": float(b) if model.bias >= 0 else 0.0}, labels=(low, high), C=float(param.C),
        intercept="penalised" if model.bias >= 0 else "none",
    )  # fmt: skip
    return _oriented(answer, samples)
