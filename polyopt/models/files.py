"""Model files in the format of skops, which holds data and no code; only the types named here are loaded."""

import io
import json
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.families import Families, Family
from formulations.language.solution import Solution
from formulations.language.types import check_indices
from polyopt.base.files import check_is_file, write_bytes
from polyopt.estimators.hinges import Hinges
from polyopt.methods import METHODS
from polyopt.models.model import Model

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_FORMAT = "polyopt model, version 3"
# A file that decompresses to more than this multiple of its size, and to more bytes than this, is refused.
_MAX_GROWTH, _MIN_SUSPICIOUS_BYTES = 200, 1 << 26
_GROWN = "is refused: it would grow from {} to {} bytes, as no model does"
_MAPPINGS = ("settings", "parameters", "claim", "data", "versions")  # of the facts
_FOREIGN = "is not a model saved by 'polyopt fit'"
_PROTOCOL = 2  # of skops; files of another are left to it
_SKLEARN_STEPS = frozenset({
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._encoders.OneHotEncoder",
})  # fmt: skip
"""Classes of scikit-learn that a pipeline may have."""
_SCALARS = {
    f"numpy.{kind.__name__}": kind for kind in (np.bool_, np.float32, np.float64, np.int32, np.int64, np.str_)
}
_KINDS = {f"builtins.{kind.__name__}": kind for kind in (str, int, float, bool)} | _SCALARS
_SPARSE = {f"{kind.__module__}.{kind.__qualname__}" for kind in (sp.csr_matrix, sp.csr_array)}


def _own_types() -> list[str]:
    """List the types that a file may have besides containers, arrays and the estimators that skops trusts."""
    own = (Solution, Families, Family, Hinges)
    kinds = (*own, sp.csr_matrix, sp.csr_array, np.dtype)  # an imputer keeps the type of its columns
    shared = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    return sorted(shared.union(*({method.home, *method.keeps} for method in METHODS.values())))


def save_model(model: "Model | BaseEstimator", path: str | Path) -> None:
    """Write a model to a file.

    The training data that the machine holds are written too; :meth:`polyopt.models.Model.without_data` drops
    them. The content is loaded once before it replaces a file. Raises ValueError for a model that no file can
    hold, such as one with a function as its kernel, and OSError if the file cannot be written.

    Parameters
    ----------
    model : Model or estimator
        A model, a fitted machine, or a pipeline that ends with one.
    path : str or Path
        The file.
    """
    import skops.io

    if not isinstance(model, Model):
        model = Model.of(model)
    about = {name: getattr(model, name) for name in ("feature_names", "target", "method")}
    about["facts"] = dict(model.facts)
    if model.method not in METHODS:
        raise ValueError(
            f"the model cannot be saved: its method {model.method!r} is not one of {', '.join(METHODS)}"
        )
    try:
        content = {"format": _FORMAT, "about": json.dumps(about), "pipeline": model.pipeline}
        made = skops.io.dumps(content, compression=zipfile.ZIP_DEFLATED)
        if _has_grown(len(made), _unpacked_size(io.BytesIO(made))):  # zeros of faces over many columns
            made = skops.io.dumps(content, compression=zipfile.ZIP_STORED)
        _read(io.BytesIO(made))
    except Exception as error:  # of any kind: a step may hold objects of any package
        raise ValueError(f"the model cannot be saved, as its file {_clause(error)}") from error
    write_bytes(path, made)


def load_model(path: str | Path) -> Model:
    """Read a model from a file of :func:`save_model`.

    Raises FileNotFoundError, and ValueError if the file is not a model of polyopt, is damaged, or holds
    objects that no model needs.
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
        raise ValueError(f"{path} {_clause(error)}") from error


class _RefusedError(Exception):
    """Error for a file that is not loaded; its text ends a sentence on the file."""


def _clause(error: BaseException) -> str:
    """Return the error of a read as the end of a sentence on the file."""
    if isinstance(error, _RefusedError):
        return str(error)
    text = " ".join(str(error).split())
    short = text if len(text) <= 200 else f"{text[:200]}..."
    return f"{_FOREIGN}, or it is damaged ({type(error).__name__}: {short})"


def _read(stream: IO[bytes]) -> Model:
    """Read a model and check its parts."""
    _check_members(stream)
    content = _content(stream)
    version = content.get("format") if isinstance(content, dict) else None
    if version == _FORMAT:
        about = json.loads(content["about"])
        fields = (about[name] for name in ("feature_names", "target", "method", "facts"))
        return _checked(Model(content["pipeline"], *fields))
    if isinstance(version, str) and version.startswith("polyopt model, version "):
        raise _RefusedError(f"was saved by another polyopt ({version}): fit the model again")
    raise _RefusedError(f"{_FOREIGN} of this version")


def _unpacked_size(stream: IO[bytes]) -> int:
    """Return the decompressed size of an archive's members, as the archive declares it."""
    with zipfile.ZipFile(stream) as archive:
        return sum(member.file_size for member in archive.infolist())


def _has_grown(size: int, unpacked: int) -> bool:
    """True if a file of `size` bytes has suspiciously many when it is decompressed."""
    return unpacked > max(_MIN_SUSPICIOUS_BYTES, _MAX_GROWTH * size)


def _check_members(stream: IO[bytes]) -> None:
    """Refuse a file that would fill the memory, has texts that are not Unicode, or indices out of range.

    The kind of a member is read from its first bytes, as numpy does, and not from its name.
    """
    size, unpacked = stream.seek(0, io.SEEK_END), _unpacked_size(stream)
    if _has_grown(size, unpacked):
        raise _RefusedError(_GROWN.format(size, unpacked))
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            with archive.open(member) as content:
                beginning = content.read(2)
            if beginning == b"\x93N" or member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    _check_texts(array)
            elif beginning == b"PK" or member.filename.endswith(".npz"):  # a sparse matrix, compressed again
                matrix = io.BytesIO(archive.read(member))
                unpacked += _unpacked_size(matrix)
                if _has_grown(size, unpacked):
                    raise _RefusedError(_GROWN.format(size, unpacked))
                check_indices(sp.load_npz(matrix))


def _check_texts(array: IO[bytes]) -> None:
    """Refuse an array of texts with code points beyond Unicode, which numpy cannot convert."""
    version = np.lib.format.read_magic(array)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise _RefusedError(
            f"is refused: it holds an array in the .npy format {version}, which no model needs"
        )
    _, _, dtype = read_header[version](array)
    if dtype.kind == "U":
        points = np.frombuffer(array.read(), dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if points.max(initial=0) > sys.maxunicode:
            raise _RefusedError(
                f"is refused: it holds a text with the code point {points.max():#x}, which Unicode has not"
            )


def _content(stream: IO[bytes]) -> Any:
    """Return the content of a file, read by :func:`read_archive`, or by skops if that cannot."""
    trusted = _own_types()
    with suppress(UnknownContentError):
        return read_archive(stream, trusted)
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.load(stream, trusted=trusted)
    except UntrustedTypesFoundException:
        foreign = sorted(set(skops.io.get_untrusted_types(file=stream)) - set(trusted))
        if all(name.startswith("polyopt.") for name in foreign):
            raise _RefusedError(
                f"was saved by another polyopt, as it holds {', '.join(foreign)}, which there is not here: "
                "fit the model again"
            ) from None
        raise _RefusedError(f"is refused: it holds {', '.join(foreign)}, which no model needs") from None


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
        raise _RefusedError(f"{_FOREIGN}, or it is damaged: its parts are not those of a model")
    return model


# -- archives without skops ---------------------------------------------------------------------------


class UnknownContentError(Exception):
    """Error for content of an archive that only skops can read, or refuse."""


def read_archive(stream: IO[bytes], trusted: Collection[str]) -> Any:
    """Return the object that ``skops.io.load`` makes of an archive of common types, without skops.

    An import of skops imports all of scikit-learn, which takes longer than most predictions. `trusted` are
    types besides containers, numbers, texts, arrays and scikit-learn's steps. UnknownContentError for any
    other type, or another form of a type, before any object is made.
    """
    with zipfile.ZipFile(stream) as archive:
        schema = json.loads(archive.read("schema.json"))
        if not isinstance(schema, dict) or schema.get("protocol") != _PROTOCOL:
            raise UnknownContentError
        reader = _Reader(archive, _SKLEARN_STEPS.union(trusted))
        for node in _nodes(schema):
            reader.maker(node)
        return reader.make(schema)


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of all objects in a part of the schema."""
    if isinstance(part, dict):
        if "__loader__" in part:
            yield part
        for inner in part.values():
            yield from _nodes(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _nodes(inner)


class _Reader:
    """Reader of the objects of one archive.

    A node of the schema has the name of its form in ``__loader__``, and its type in ``__module__`` and
    ``__class__``. Nodes with the same ``__id__`` are one object.
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
        """Return the function that makes a node's object; UnknownContentError for other forms and types."""
        form = node["__loader__"]
        types, make = self.forms.get(form, ((), None)) if isinstance(form, str) else ((), None)
        if make is None or _type_of(node) not in types:
            raise UnknownContentError
        return make

    def make(self, node: dict[str, Any]) -> Any:
        """Return the object of a node."""
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
        """Return an array, a number or a text of numpy; an array of objects is a list of nodes."""
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
        """Return an object with its attributes; its class is not called."""
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
