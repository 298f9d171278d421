"""Reads skops archives of the types that nearly all models are made of, without skops.

An import of skops imports every estimator of scikit-learn, to know their names; that takes longer than most
predictions. An archive in which anything else is found is left to skops, which says what is wrong with it.
"""

from __future__ import annotations

import io
import json
import zipfile
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = ["UnknownContentError", "read_archive"]

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


class UnknownContentError(Exception):
    """Something in an archive that is for skops to read, or to refuse."""


def read_archive(stream: IO[bytes], trusted: Collection[str]) -> Any:
    """The object that ``skops.io.load`` makes of an archive.

    Parameters
    ----------
    stream : binary stream
        The archive.
    trusted : collection of str
        Types that it may hold besides containers, numbers, texts, arrays and scikit-learn's steps.

    Raises
    ------
    UnknownContentError
        It holds other types, or types in another form. Nothing was made by then.
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
            "ListNode": (("builtins.list",), lambda node: self._items(node)),
            "TupleNode": (("builtins.tuple",), lambda node: tuple(self._items(node))),
            "NdArrayNode": (("numpy.ndarray", *_SCALARS), self._array),
            "DTypeNode": (("numpy.dtype",), lambda node: self.make(node["content"]).dtype),
            "SparseMatrixNode": (_SPARSE, lambda node: sp.load_npz(self._file(node))),
            "ObjectNode": (trusted, self._object),
        }

    def maker(self, node: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
        """The function that makes an object of this form.

        UnknownContentError: there is none for the form, or for its type.
        """
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
