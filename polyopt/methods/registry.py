"""Every method by name: of this package, of installed packages, and added by `register`."""

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

GROUP = "polyopt.methods"
"""The group of entry points by which an installed package registers methods."""

BUILT_IN = {method.name: method for method in ENTRIES}
"""The methods of this package."""

DEFAULT_METHODS = ("svm", "sigma-svm", "rmm", "rmm-rbf", "cpm")
"""The methods that are compared by default."""

DEFAULT_METHOD = "rmm"
"""The method that is fitted by default."""

_OWN, _BY_HAND = "polyopt", ""


class MethodError(RuntimeError):
    """An error of the code of another package's method."""


class _Methods(Mapping[str, Method]):
    """The methods by name; entry points are read at the first use of a method that is not built in.

    `by_name` has the methods known, `packages` the package of each, `families` the module of each family.
    """

    def __init__(self, built_in: Mapping[str, Method]):
        self.by_name = dict(built_in)
        self.packages = dict.fromkeys(built_in, _OWN)
        self.families = {family: module for method in built_in.values()
                         for family, module in method.families.items()}  # fmt: skip

    @cached_property
    def complete(self) -> dict[str, Method]:
        """All methods, those of installed packages included."""
        # Set before it is filled: a package may use methods while it is imported.
        self.__dict__["complete"] = self.by_name
        for point in _entry_points():
            self.read(point)
        return self.by_name

    def read(self, point: "EntryPoint") -> None:
        """Add the methods of an entry point; one that is wrong is left out with a warning."""
        package = (point.dist.name if point.dist is not None else None) or point.module
        subject = f"the package {package!r} registers {point.name!r} as a method of polyopt"
        try:
            value = point.load()
            value = value if isinstance(value, (Method, Iterable)) or not callable(value) else value()
            methods: list[Any] = [value] if isinstance(value, (Method, str)) else list(value)
        except (Exception, SystemExit) as error:  # of any kind: it is code of another package
            _warn(f"{subject}, which cannot be read: {_words(error)}")
            return
        for method in methods:
            try:
                self.add(method, package)
            except (TypeError, ValueError) as error:
                _warn(f"{subject}, which is left out: {error}")

    def add(self, method: Method, package: str) -> None:
        """Add a method, unless another method or family has its name."""
        if not isinstance(method, Method):
            raise TypeError(f"a method is registered by a polyopt.Method, not by {type(method).__name__}")
        replaced = self.by_name.get(method.name)
        if method == replaced:
            return
        if replaced is not None and (self.packages[replaced.name], package) != (_BY_HAND, _BY_HAND):
            owner = self.packages[replaced.name] or "this session"
            raise ValueError(f"there is a method {method.name!r} already, of {owner}")
        families = {family: module for each in self.by_name.values() if each is not replaced
                    for family, module in each.families.items()}  # fmt: skip
        for family, module in method.families.items():
            if families.get(family, module) != module:
                raise ValueError(f"there is a family {family!r} of programs already, in {families[family]}")
        self.families = {**families, **method.families}
        self.by_name[method.name], self.packages[method.name] = method, package

    def __getitem__(self, name: str) -> Method:
        return self.by_name[name] if name in self.by_name else self.complete[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.complete)

    def __len__(self) -> int:
        return len(self.complete)


def _entry_points() -> "list[EntryPoint]":
    """Return the entry points of this group, also if the file of one package cannot be read."""
    from importlib.metadata import distributions, entry_points

    try:
        return list(entry_points(group=GROUP))
    except Exception:  # of any kind: they are files of other packages
        points: list[EntryPoint] = []
        for package in distributions():
            try:
                points += package.entry_points.select(group=GROUP)
            except Exception as error:
                _warn(f"the entry points of the package {package.name!r} cannot be read: {_words(error)}")
        return points


METHODS = _Methods(BUILT_IN)
"""Every method by name."""


def register(method: Method) -> None:
    """Add a method to this session, for :func:`polyopt.compare.compare`, the reports and the commands.

    A method of an installed package is added by an entry point in the group ``polyopt.methods``, which names
    a :class:`Method`, several, or a function that returns them.

    A method of the same name that was added by this function is replaced; any other method of that name is an
    error.
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
    """Return the method of the same estimator whose programs and fast solver are those of a kernel.

    Return `method` itself if there is no such method, it has no kernel, or `kernel` is None.
    """
    if kernel is None or "kernel" not in method.settings:
        return method
    siblings = [each for each in METHODS.values() if each.home == method.home and "kernel" in each.settings]
    for each in (method, *siblings):
        if (each.settings["kernel"] == "linear") == (kernel == "linear"):
            return each
    return method


def method_of(estimator: object) -> Method | None:
    """Return the method of an estimator's class or of its nearest base class with one; None without any."""
    classes = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(estimator).__mro__]
    for methods in (BUILT_IN, METHODS):  # other packages are read only if no built-in method has the class
        by_home = {method.home: method for method in reversed(list(methods.values()))}
        if method := next((by_home[name] for name in classes if name in by_home), None):
            return method
    return None


def families() -> tuple[str, ...]:
    """Return the families of programs of all methods, those of one method side by side."""
    _ = METHODS.complete
    return tuple(METHODS.families)


def owner_of(family: str) -> Method:
    """Return the first method that names a family of programs."""
    if family not in METHODS.families and family not in families():
        raise ValueError(f"no family is called {family!r}; there are {', '.join(families())}")
    return next(method for method in METHODS.by_name.values() if family in method.families)


def family_module(name: str) -> ModuleType:
    """Import the module of a family; a :class:`MethodError` names another package that fails."""
    with answering_for(owner_of(name)):
        return import_module(METHODS.families[name])


@contextmanager
def answering_for(method: Method) -> Iterator[None]:
    """Turn errors of another package's method into a :class:`MethodError`, which names the package."""
    try:
        yield
    except Exception as error:
        package = METHODS.packages[method.name]
        if package == _OWN:
            raise
        owner = f" of the package {package!r}" if package else ""
        raise MethodError(f"method {method.name!r}{owner}: {_words(error)}") from error


def _words(error: BaseException) -> str:
    """Return the error in a line, with its class unless it is a ValueError, which is a sentence."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def _warn(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, stacklevel=2)
