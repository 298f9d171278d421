"""A fitted model in a file of skops, which holds data and no code; only the types named here are loaded."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.families import Families, Family
from formulations.language.solution import Solution
from formulations.language.types import check_indices
from polyopt.base.files import check_is_file, write_bytes
from polyopt.estimators.calibration import ScoreClassifier
from polyopt.estimators.hinges import Hinges
from polyopt.methods import METHODS
from polyopt.models.model import Model

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_FORMAT = "polyopt model, version 2"
_FIRST = "polyopt model, version 1"
# A file that grows by more than this factor, and beyond this size, was not made by a fit.
_MAX_GROWTH, _MIN_SUSPICIOUS_BYTES = 200, 1 << 26
_GROWN = "it would grow from {} to {} bytes, as no model does"
_MAPPINGS = ("settings", "parameters", "claim", "data", "versions")  # of the facts
_FOREIGN = "is not a model saved by 'polyopt fit'"
# Parameters that machines had in earlier versions, and the value of each that changed nothing.
_NEUTRAL = {"l1": 0.0, "group": 0.0, "signs": None, "max_features": None, "integers": None}
_REMOVED: dict[tuple[str, str], Any] = {
    (owner, name): neutral
    for owner in ("SPLA1", "PLUME", "Polyceptron")
    for name, neutral in _NEUTRAL.items()
}
_REMOVED["CrossEntropySVM", "l2"] = 0.0
_REMOVED["ConvexPolytopeMachine", "ties"] = "scores"
_GONE = {"SoftRelativeMarginMachine": "fit RelativeMarginMachine(bound_cost=...) instead"}
"""Estimators of earlier versions, and what to use instead."""
# Modules of earlier versions whose classes files name, and where these are now.
_MOVED = {
    "polyopt.estimators.calibrated": "polyopt.estimators.calibration",
    "formulations.families.families": "formulations.families",
    "formulations.families.family": "formulations.families",
    "formulations.solution": "formulations.language.solution",
    "polyopt.estimators.cpm": "polyopt.cpm.estimator",
    "polyopt.estimators.l0": "polyopt.sparse.estimator",
    "polyopt.estimators.logistic_polytopes": "polyopt.polyhedral.logistic_estimator",
    "polyopt.estimators.one_norm": "polyopt.sparse.one_norm_estimator",
    "polyopt.estimators.pc_slp": "polyopt.polyhedral.pc_slp",
    "polyopt.estimators.plume": "polyopt.polyhedral.plume",
    "polyopt.estimators.polyceptron": "polyopt.polyhedral.polyceptron",
    "polyopt.estimators.rmm": "polyopt.margin.rmm",
    "polyopt.estimators.sigma_svm": "polyopt.margin.sigma_svm",
    "polyopt.estimators.spla1": "polyopt.polyhedral.spla1",
    "polyopt.estimators.svm": "polyopt.margin.svm",
    "polyopt.outer.cross_entropy.method": "polyopt.optim.cross_entropy",
    "polyopt.outer.l0.scores": "polyopt.sparse.pattern_scores",
    "polyopt.outer.l0.search": "polyopt.sparse.cross_entropy",
    "polyopt.outer.l0.settings": "polyopt.sparse.settings",
    "polyopt.polyhedral.pc_slp_estimator": "polyopt.polyhedral.pc_slp",
    "polyopt.polyhedral.plume_estimator": "polyopt.polyhedral.plume",
    "polyopt.polyhedral.polyceptron_estimator": "polyopt.polyhedral.polyceptron",
    "polyopt.polyhedral.polyceptron_online": "polyopt.polyhedral.polyceptron",
    "polyopt.polyhedral.spla1_estimator": "polyopt.polyhedral.spla1",
}
_PROTOCOL = 2  # of skops; files of another are left to it
_STEPS = frozenset({
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.isotonic.IsotonicRegression",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._encoders.OneHotEncoder",
})  # fmt: skip
"""Estimators of scikit-learn of which a model may be made."""
_PLAIN = {f"builtins.{kind.__name__}": kind for kind in (str, int, float, bool)}
_SCALARS = {
    f"numpy.{kind.__name__}": kind for kind in (np.bool_, np.float32, np.float64, np.int32, np.int64, np.str_)
}
_KINDS = _PLAIN | _SCALARS
_SPARSE = {f"{kind.__module__}.{kind.__qualname__}" for kind in (sp.csr_matrix, sp.csr_array)}


# What a fitted CalibratedClassifierCV is made of, which skops does not trust unasked.
_OF_CALIBRATION = ("sklearn.calibration._CalibratedClassifier", "sklearn.calibration._SigmoidCalibration")


def _own_types() -> list[str]:
    """The types that a file may have besides containers, arrays and the estimators that skops trusts."""
    own = (Solution, Families, Family, ScoreClassifier, Hinges)
    kinds = (*own, sp.csr_matrix, sp.csr_array, np.dtype)  # an imputer keeps the type of its columns
    shared = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}.union(_OF_CALIBRATION)
    return sorted(shared.union(*({method.home, *method.keeps} for method in METHODS.values())))


def save_model(model: Model | BaseEstimator, path: str | Path) -> None:
    """Write a model, with the training data that its machine holds.

    What is written is read back first, as :func:`load_model` reads it: a file that is there is replaced only
    by one that can be loaded.

    Parameters
    ----------
    model : Model or estimator
        A model; :meth:`polyopt.models.Model.without_data` leaves the data behind. A fitted machine, or a
        pipeline that ends with one, is saved as its :meth:`polyopt.models.Model.of`.
    path : str or Path
        The file.

    Raises
    ------
    ValueError
        A model that no file can hold, such as one with a function for a kernel; the message names the object.
    OSError
        When the file cannot be written.
    """
    import skops.io

    if not isinstance(model, Model):
        model = Model.of(model)
    about = {
        "feature_names": model.feature_names,
        "target": model.target,
        "method": model.method,
        "facts": dict(model.facts),
    }
    if model.method not in METHODS:
        raise ValueError(
            f"the model cannot be saved: its method {model.method!r} is not one of {', '.join(METHODS)}"
        )
    try:
        content = {"format": _FORMAT, "about": json.dumps(about), "pipeline": model.pipeline}
        made = skops.io.dumps(content, compression=zipfile.ZIP_DEFLATED)
        if _has_grown(len(made), _whole_size(io.BytesIO(made))):  # mostly zeros: faces of many columns
            made = skops.io.dumps(content, compression=zipfile.ZIP_STORED)
        _read(io.BytesIO(made))
    except Exception as error:  # of any kind: a step may hold objects of any package
        raise ValueError(f"the model cannot be saved, as its file {_words(error)}") from error
    write_bytes(path, made)


def load_model(path: str | Path) -> Model:
    """Read a model.

    Parameters
    ----------
    path : str or Path
        A file of :func:`save_model`, or of the first version of polyopt.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        When it is not a model of polyopt, is damaged, or would make anything a model has no need of.
    """
    path = Path(path)
    check_is_file(path, "model")
    if not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            if stream.read(4) == b"PK\x03\x04":
                raise ValueError(f"{path} is damaged: its end is missing. Copy it again, or fit again")
        raise ValueError(f"{path} {_FOREIGN}. Pickles (joblib) are refused: loading one can run any code")
    try:
        with path.open("rb") as stream:
            return _read(stream)
    except Exception as error:  # of any kind: a damaged file raises all of them
        raise ValueError(f"{path} {_words(error)}") from error


class _RefusedError(Exception):
    """Content that no model needs."""


class _ForeignError(Exception):
    """The reason why a file is not a model, as the rest of a sentence."""


def _words(error: BaseException) -> str:
    """The error of a read, as the rest of a sentence."""
    if isinstance(error, _RefusedError):
        return f"is refused: {error}"
    if isinstance(error, _ForeignError):
        return str(error)
    text = " ".join(str(error).split())
    short = text if len(text) <= 200 else f"{text[:200]}..."
    return f"{_FOREIGN}, or it is damaged ({type(error).__name__}: {short})"


def _read(stream: IO[bytes]) -> Model:
    """Read a model whose parts are those of one."""
    _check_members(stream)
    content = _content(stream)
    found = content.get("format") if isinstance(content, dict) else None
    if found == _FORMAT:
        about = json.loads(content["about"])
        own = (about[name] for name in ("feature_names", "target", "method", "facts"))
        return _checked(Model(content["pipeline"], *own))
    if found == _FIRST:  # the machine with its data, a scaler, and no facts of the fit
        steps = [] if content["scaler"] is None else [("scaler", content["scaler"])]
        known = {name: content[name] for name in ("feature_names", "target", "method")}
        return _checked(Model.of(content["estimator"], steps, **known))
    if isinstance(found, str) and found.startswith("polyopt model, version "):
        raise _ForeignError(f"was saved by a later polyopt ({found}), which this one cannot read")
    raise _ForeignError(f"{_FOREIGN} of this version")


def _whole_size(stream: IO[bytes]) -> int:
    """Decompressed bytes of an archive's members, as it declares them."""
    with zipfile.ZipFile(stream) as archive:
        return sum(member.file_size for member in archive.infolist())


def _has_grown(size: int, whole: int) -> bool:
    """True if a file of `size` bytes has suspiciously many when it is decompressed."""
    return whole > max(_MIN_SUSPICIOUS_BYTES, _MAX_GROWTH * size)


def _check_members(stream: IO[bytes]) -> None:
    """Refuse a file that would fill the memory, has texts that are not Unicode, or indices out of range.

    A member is known by its first bytes, as numpy knows it, whatever its name is.
    """
    size, whole = stream.seek(0, io.SEEK_END), _whole_size(stream)
    if _has_grown(size, whole):
        raise _RefusedError(_GROWN.format(size, whole))
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            with archive.open(member) as content:
                beginning = content.read(2)
            if beginning == b"\x93N" or member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _check_texts(array)
            elif beginning == b"PK" or member.filename.endswith(".npz"):  # a sparse matrix, compressed again
                matrix = io.BytesIO(archive.read(member))
                whole += _whole_size(matrix)
                if _has_grown(size, whole):
                    raise _RefusedError(_GROWN.format(size, whole))
                check_indices(sp.load_npz(matrix))


def _check_texts(array: IO[bytes]) -> None:
    """Refuse an array of texts with numbers beyond those of Unicode, on which numpy fails when it is used."""
    version = np.lib.format.read_magic(array)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise _RefusedError(f"it holds an array in the .npy format {version}, which no model needs")
    _, _, dtype = read_header[version](array)
    if dtype.kind == "U":
        points = np.frombuffer(array.read(), dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if points.max(initial=0) > sys.maxunicode:
            raise _RefusedError(
                f"it holds a text with the code point {points.max():#x}, which Unicode has not"
            )


def _renamed(stream: IO[bytes]) -> IO[bytes]:
    """The archive with the modules of today in place of those of earlier versions (``_MOVED``)."""
    with zipfile.ZipFile(stream) as archive:
        schema = archive.read("schema.json").decode()
        old = [name for name in _MOVED if f'"__module__": "{name}"' in schema]
        if not old:
            return stream
        for name in old:
            schema = schema.replace(f'"__module__": "{name}"', f'"__module__": "{_MOVED[name]}"')
        renamed = io.BytesIO()
        with zipfile.ZipFile(renamed, "w") as made:
            for member in archive.infolist():
                data = schema.encode() if member.filename == "schema.json" else archive.read(member)
                made.writestr(member.filename, data)
    return renamed


def _content(stream: IO[bytes]) -> Any:
    trusted, stream = _own_types(), _renamed(stream)
    try:
        return read_archive(stream, trusted)
    except UnknownContentError:
        return _content_by_skops(stream, trusted)


def _content_by_skops(stream: IO[bytes], trusted: list[str]) -> Any:
    """The content of a file by skops, with its checks."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.load(stream, trusted=trusted)
    except UntrustedTypesFoundException:
        foreign = sorted(set(skops.io.get_untrusted_types(file=stream)) - set(trusted))
        for home, _, name in (one.rpartition(".") for one in foreign):
            if name in _GONE and home.startswith("polyopt."):
                raise _RefusedError(f"this version has no {name} any more: {_GONE[name]}") from None
        if all(name.startswith("polyopt.") for name in foreign):
            raise _ForeignError(
                f"was saved by an earlier polyopt, as it holds {', '.join(foreign)}, which there is no more: "
                "fit the model again"
            ) from None
        raise _RefusedError(f"it holds {', '.join(foreign)}, which no model needs") from None


def _checked(model: Model) -> Model:
    """Refuse a file whose parts are not those of a model."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    names, facts = model.feature_names, model.facts
    ours = METHODS[model.method].estimator_class
    is_whole = (
        isinstance(model.pipeline, Pipeline)
        and isinstance(model.estimator, ours)
        and isinstance(model.target, str | int)
        and isinstance(facts, dict)
        and all(isinstance(facts.get(name), dict | None) for name in _MAPPINGS)
        and isinstance(facts.get("status"), list | None)
        and (names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names)))
    )
    if is_whole:
        check_is_fitted(model.estimator)
        is_whole = names is None or len(names) == model.n_features
    if not is_whole:
        raise _ForeignError(f"{_FOREIGN}, or it is damaged: its parts are not those of a model")
    _check_parameters(model.estimator)
    return model


def _check_parameters(estimator: BaseEstimator) -> None:
    """Refuse a machine that was fitted with a parameter that is no more."""
    kind = type(estimator).__name__
    for (owner, name), neutral in _REMOVED.items():
        if kind == owner and np.any(vars(estimator).get(name, neutral) != neutral):
            raise _ForeignError(
                f"holds a {kind} that was fitted with {name}, which it no longer has: fit it again without, "
                "or load it with the polyopt that saved it"
            )


# -- archives without skops ---------------------------------------------------------------------------


class UnknownContentError(Exception):
    """Content of an archive that is left to skops to read, or to refuse."""


def read_archive(stream: IO[bytes], trusted: Collection[str]) -> Any:
    """The object that ``skops.io.load`` makes of an archive of the types that nearly all models are made of.

    An import of skops imports all of scikit-learn, which takes longer than most predictions. `trusted` are
    types besides containers, numbers, texts, arrays and scikit-learn's steps. UnknownContentError for any
    other type, or another form of a type, before any object is made.
    """
    with zipfile.ZipFile(stream) as archive:
        schema = json.loads(archive.read("schema.json"))
        if not isinstance(schema, dict) or schema.get("protocol") != _PROTOCOL:
            raise UnknownContentError
        reader = _Reader(archive, _STEPS.union(trusted))
        for node in _nodes(schema):
            reader.maker(node)
        return reader.make(schema)


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """All objects that a part of the schema describes."""
    if isinstance(part, dict):
        if "__loader__" in part:
            yield part
        for inner in part.values():
            yield from _nodes(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _nodes(inner)


class _Reader:
    """Makes the objects of one archive.

    A node of the schema has the name of its form in ``__loader__``, and its type in ``__module__`` and
    ``__class__``. Nodes of one ``__id__`` are one object.
    """

    def __init__(self, archive: zipfile.ZipFile, trusted: Collection[str]):
        self.archive = archive
        self.made: dict[int, Any] = {}
        self.forms: dict[str, tuple[Collection[str], Callable[[dict[str, Any]], Any]]] = {
            "JsonNode": (("builtins.str",), lambda node: json.loads(node["content"])),
            "TypeNode": (_KINDS, lambda node: _KINDS[_type_of(node)]),
            "SliceNode": (("builtins.slice",), _slice),
            "DictNode": (("builtins.dict",), self._dict),
            "ListNode": (("builtins.list",), self._items),
            "TupleNode": (("builtins.tuple",), lambda node: tuple(self._items(node))),
            "NdArrayNode": (("numpy.ndarray", *_SCALARS), self._array),
            "DTypeNode": (("numpy.dtype",), lambda node: self.make(node["content"]).dtype),
            "SparseMatrixNode": (_SPARSE, lambda node: sp.load_npz(self._file(node))),
            "ObjectNode": (trusted, self._object),
        }

    def maker(self, node: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
        """The function that makes an object of this form; UnknownContentError for other forms and types."""
        form = node["__loader__"]
        types, make = self.forms.get(form, ((), None)) if isinstance(form, str) else ((), None)
        if make is None or _type_of(node) not in types:
            raise UnknownContentError
        return make

    def make(self, node: dict[str, Any]) -> Any:
        """The object of a node."""
        number = node.get("__id__")
        if number is None:
            return self.maker(node)(node)
        if number not in self.made:
            self.made[number] = self.maker(node)(node)
        return self.made[number]

    def _items(self, node: dict[str, Any]) -> list[Any]:
        return [self.make(item) for item in node["content"]]

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        kinds = self.make(node["key_types"])  # keys of JSON are texts
        pairs = zip(kinds, node["content"].items(), strict=True)
        return {kind(key): self.make(value) for kind, (key, value) in pairs}

    def _file(self, node: dict[str, Any]) -> io.BytesIO:
        return io.BytesIO(self.archive.read(node["file"]))

    def _array(self, node: dict[str, Any]) -> Any:
        """An array, a number or a text of numpy; an array of objects is a list of nodes."""
        if node["type"] == "numpy":
            found = np.load(self._file(node), allow_pickle=False)
            scalar = _SCALARS.get(_type_of(node))
            return found if scalar is None else scalar(found)
        items, shape = self._items(node), self.make(node["shape"])
        if len(shape) != 1:
            return np.array(items, dtype=object)
        found = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # which may be arrays themselves
            found[i] = item
        return found

    def _object(self, node: dict[str, Any]) -> Any:
        """An object with its attributes; its class is not called."""
        kind = getattr(import_module(node["__module__"]), node["__class__"])
        found = kind.__new__(kind)
        attributes = self.make(node["content"]) if node.get("content") is not None else None
        if attributes is None:
            return found
        if hasattr(found, "__setstate__"):
            found.__setstate__(attributes)
        else:
            vars(found).update(attributes)
        return found


def _slice(node: dict[str, Any]) -> slice:
    bounds = [node["content"][name] for name in ("start", "stop", "step")]
    if not all(bound is None or isinstance(bound, int) for bound in bounds):
        raise UnknownContentError
    return slice(*bounds)


def _type_of(node: dict[str, Any]) -> str:
    return f"{node['__module__']}.{node['__class__']}"
