"""Every method by name: those of this package, those of installed packages, those registered by hand."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from polyopt.methods.entries import ENTRIES
from polyopt.methods.method import Method

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "BUILT_IN", "DEFAULT_METHOD", "DEFAULT_METHODS", "GROUP", "METHODS", "answering_for", "families",
    "family_module", "find_method", "for_kernel", "is_family", "method_of", "owner_of", "package_of",
    "register",
]  # fmt: skip

GROUP = "polyopt.methods"
"""The group of entry points by which an installed package registers methods."""

BUILT_IN = {method.name: method for method in ENTRIES}
"""The methods of this package."""

DEFAULT_METHODS = ("svm", "sigma-svm", "rmm", "rmm-rbf", "cpm")
"""Those that are compared where none is named."""

DEFAULT_METHOD = "rmm"
"""The one that is fitted where none is named."""

_OWN, _BY_HAND = "polyopt", ""


class _Methods(Mapping[str, Method]):
    """The methods by name. Entry points are looked at when it is first asked for more than is built in."""

    def __init__(self, found: Mapping[str, Method]):
        self.found = dict(found)
        self.packages = dict.fromkeys(found, _OWN)
        self.families = {name: place for method in found.values() for name, place in method.families.items()}

    @cached_property
    def complete(self) -> dict[str, Method]:
        """All of them, those of installed packages included."""
        # Set before it is filled: a package may ask for methods while it is imported.
        self.__dict__["complete"] = self.found
        for point in _entry_points():
            self.read(point)
        return self.found

    def read(self, point: EntryPoint) -> None:
        """Take what one entry point names; one that is wrong is left out with a warning."""
        package = (point.dist.name if point.dist is not None else None) or point.module
        told = f"the package {package!r} registers {point.name!r} as a method of polyopt"
        try:
            value = point.load()
            value = value if isinstance(value, (Method, Iterable)) or not callable(value) else value()
            methods: list[Any] = [value] if isinstance(value, (Method, str)) else list(value)
        except (Exception, SystemExit) as error:  # of any kind: it is another's code
            _warn(f"{told}, which cannot be read: {_words(error)}")
            return
        for method in methods:
            try:
                self.add(method, package)
            except (TypeError, ValueError) as error:
                _warn(f"{told}, which is left out: {error}")

    def add(self, method: Method, package: str) -> None:
        """Add one, unless it takes a name that is another's."""
        if not isinstance(method, Method):
            raise TypeError(f"a method is registered by a polyopt.Method, not by {type(method).__name__}")
        last = self.found.get(method.name)
        if method == last:
            return
        if last is not None and (self.packages[last.name], package) != (_BY_HAND, _BY_HAND):
            owner = self.packages[last.name] or "this session"
            raise ValueError(f"there is a method {method.name!r} already, of {owner}")
        others = {name: place for each in self.found.values() if each is not last
                  for name, place in each.families.items()}  # fmt: skip
        for name, place in method.families.items():
            if others.get(name, place) != place:
                raise ValueError(f"there is a family {name!r} of programs already, in {others[name]}")
        self.families = {**others, **method.families}
        self.found[method.name], self.packages[method.name] = method, package

    def __getitem__(self, name: str) -> Method:
        return self.found[name] if name in self.found else self.complete[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.complete)

    def __len__(self) -> int:
        return len(self.complete)


def _entry_points() -> list[EntryPoint]:
    """Return the entry points of this group, also if the file of one package cannot be read."""
    from importlib.metadata import distributions, entry_points

    try:
        return list(entry_points(group=GROUP))
    except Exception:  # of whichever kind: they are others' files
        found: list[EntryPoint] = []
        for package in distributions():
            try:
                found += package.entry_points.select(group=GROUP)
            except Exception as error:
                _warn(f"the entry points of the package {package.name!r} cannot be read: {_words(error)}")
        return found


METHODS = _Methods(BUILT_IN)
"""Every method by name."""


def register(method: Method) -> None:
    """Make a method known to this session: to :func:`polyopt.compare.compare`, to the reports, and so on.

    A method of an installed package is known without it: by an entry point in the group ``polyopt.methods``
    that names a :class:`Method`, several, or a function that gives them.

    One of the same name that was registered before by this function is replaced; a name that is taken
    otherwise is refused.
    """
    _ = METHODS.complete
    METHODS.add(method, _BY_HAND)


def find_method(name: str) -> Method:
    """Return the method called `name`, in which an underscore may stand for a hyphen."""
    key = name.strip().replace("_", "-")
    if key in METHODS:
        return METHODS[key]
    close = difflib.get_close_matches(key, METHODS, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"method {name!r} is not known.{hint} Known: {', '.join(METHODS)}")


def for_kernel(method: Method, kernel: str | None) -> Method:
    """Return the entry of the same machine whose programs and fast solver are those of a kernel.

    Parameters
    ----------
    method : Method
        A method, such as that of the linear machine.
    kernel : str or None
        ``"linear"``, or another kernel; None for the method's own.

    Returns
    -------
    Method
        The method itself if it fits, or if there is no other.
    """
    if kernel is None or "kernel" not in method.settings:
        return method

    def fits(one: Method) -> bool:
        return (one.settings.get("kernel") == "linear") == (kernel == "linear")

    kin = [one for one in METHODS.values() if one.home == method.home and "kernel" in one.settings]
    return next((one for one in (method, *kin) if fits(one)), method)


def method_of(estimator: object) -> Method | None:
    """Return the method whose estimator this is, or descends from; None for that of no method."""
    places = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(estimator).__mro__]
    for known in (BUILT_IN, METHODS):  # other packages are looked at where it is none of these
        by_home = {method.home: method for method in reversed(list(known.values()))}
        if found := next((by_home[place] for place in places if place in by_home), None):
            return found
    return None


def package_of(method: Method) -> str:
    """Return the package that a method is of; empty for one that was registered by hand."""
    return METHODS.packages[method.name]


def is_family(name: str) -> bool:
    """Return True if a method has a family of programs of this name."""
    return name in METHODS.families or name in families()


def families() -> tuple[str, ...]:
    """Return the families of programs of all methods, those of one method side by side."""
    _ = METHODS.complete
    return tuple(METHODS.families)


def owner_of(family: str) -> Method:
    """Return the first method that names a family of programs."""
    if not is_family(family):
        raise ValueError(f"no family is called {family!r}; there are {', '.join(families())}")
    return next(method for method in METHODS.found.values() if family in method.families)


def family_module(name: str) -> ModuleType:
    """Import the module of one of the :func:`families`; a RuntimeError names another package that fails."""
    with answering_for(owner_of(name)):
        return import_module(METHODS.families[name])


@contextmanager
def answering_for(method: Method) -> Iterator[None]:
    """Turn errors of another package's code inside into a RuntimeError that names the package of a method."""
    try:
        yield
    except Exception as error:
        package = package_of(method)
        if package == _OWN:
            raise
        owner = f" of the package {package!r}" if package else ""
        raise RuntimeError(f"method {method.name!r}{owner}: {_words(error)}") from error


def _words(error: BaseException) -> str:
    """Return the error in a line: a ValueError is a sentence, of others the kind says more."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def _warn(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, stacklevel=2)
