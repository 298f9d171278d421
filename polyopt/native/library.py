"""Calls of the compiled kernels: a signature is declared once, and arrays are checked against it before C.

``kernel("square_norms", "X: T (n, m); centre: f8 (m); squares: f8 (n)", T="f4 f8")`` is a function of three
arrays. Each letter in parentheses is a length: the first array that has it tells it, the others must agree,
and the C function receives all lengths first, in the order in which they appear, then the arguments. Types
are numpy's (f4, f8, i8, i4, u2, u1, i1, b1). T stands for one of several; the C function of a call is then
named with the types taken, as ``square_norms_f4``. An argument without parentheses is a number (f8, f4, i8).
``returns`` is the type of a number that comes back.

Arrays are C-contiguous. Nothing is copied, and what a kernel writes to it writes in place. The interpreter's
lock is let go while a kernel runs.
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Struct", "kernel", "level"]

LIBRARIES = Path(os.environ.get("POLYOPT_LIBRARIES") or Path(__file__).parent / "lib")
_NUMBERS = {"f8": ctypes.c_double, "i8": ctypes.c_int64, "f4": ctypes.c_float}
_MEMORY = ctypes.c_char * 0
_ARGUMENT = re.compile(r"(\w+): *(\w+) *(?:\(([^)]*)\))?$")


@cache
def level() -> str:
    """Instruction set of the library in use; the environment variable POLYOPT_LEVEL names another."""
    built = sorted(path.name.split(".")[1] for path in LIBRARIES.glob("kernels.*.so"))
    if not built:
        raise ImportError(
            f"polyopt's compiled kernels are not in {LIBRARIES}: install polyopt with pip, or run "
            "`python polyopt/native/build.py` in a checkout"
        )
    if os.environ.get("POLYOPT_LEVEL"):
        return os.environ["POLYOPT_LEVEL"]
    if len(built) == 1:
        return built[0]
    number = ctypes.CDLL(str(LIBRARIES / f"kernels.{built[0]}.so")).processor_level()
    return f"x86-64-v{number}"


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARIES / f"kernels.{level()}.so"))


class _Argument(NamedTuple):
    """An argument of a signature: its name, type, and lengths (None for a number)."""

    name: str
    kind: str
    shape: tuple[str, ...] | None


def _parsed(signature: str) -> list[_Argument]:
    found = []
    for part in signature.split(";"):
        match = _ARGUMENT.match(part.strip())
        if match is None:
            raise ValueError(f"no argument: {part.strip()!r}")
        name, kind, shape = match.groups()
        lengths = None if shape is None else tuple(s.strip() for s in shape.split(",") if s.strip())
        found.append(_Argument(name, kind, lengths))
    return found


def _lengths(arguments: list[_Argument]) -> list[str]:
    """All letters, in the order in which they appear."""
    return list(dict.fromkeys(letter for argument in arguments for letter in argument.shape or ()))


def kernel(name: str, signature: str, *, returns: str | None = None, **types: str) -> Callable[..., Any]:
    """The C function of this name as a function of arrays and numbers.

    name, signature, returns: as the module says.
    types: for each type that varies, those that it may be, parted by blanks.
    """
    arguments = _parsed(signature)
    lengths = _lengths(arguments)
    variants = {letter: [np.dtype(kind) for kind in kinds.split()] for letter, kinds in types.items()}

    @cache
    def function_of(*kinds: np.dtype[Any]) -> Any:
        """The C function for these types, one for each letter of `types`."""
        of = {letter: kind.str[1:] for letter, kind in zip(types, kinds, strict=True)}
        function = getattr(_library(), "_".join([name, *of.values()]))
        function.argtypes = [ctypes.c_int64] * len(lengths) + [
            _NUMBERS[of.get(kind, kind)] if shape is None and kind not in Struct.known else ctypes.c_void_p
            for _, kind, shape in arguments
        ]
        function.restype = None if returns is None else _NUMBERS[of.get(returns, returns)]
        return function

    def check(*given: Any) -> None:
        """Raise what is wrong, if anything is."""
        known: dict[str, int] = {}
        kinds: dict[str, np.dtype[Any]] = {}
        for (own, kind, shape), value in zip(arguments, given, strict=True):
            if shape is None:
                continue
            allowed = [kinds[kind]] if kind in kinds else variants.get(kind) or [np.dtype(kind)]
            if value.dtype not in allowed:
                raise TypeError(f"{name}: {own} is of {value.dtype}, not {' or '.join(map(str, allowed))}")
            kinds[kind] = value.dtype
            if value.ndim != len(shape):
                raise ValueError(f"{name}: {own} has {value.ndim} dimensions, not {len(shape)}")
            for letter, length in zip(shape, value.shape, strict=True):
                if known.setdefault(letter, length) != length:
                    told = f"({', '.join(shape)}) with {letter} = {known[letter]}"
                    raise ValueError(f"{name}: {own} has shape {value.shape}, not {told}")

    fixed = {
        kind: np.dtype(kind) for _, kind, shape in arguments if shape is not None and kind not in variants
    }
    return _written_out(name, arguments, variants)(function_of, check, _memory, fixed, variants)


def _written_out(name: str, arguments: list[_Argument], variants: dict[str, Any]) -> Callable[..., Any]:
    """Maker of the function that is called, written for each signature as dataclasses write methods.

    One expression tells whether all is well, as calls may be many; only if not, `check` says what is wrong.
    """
    heads, tests, passed = [], [], []
    kinds: dict[str, str] = {}  # where the type of each letter is first seen
    told: set[str] = set()
    for own, kind, shape in arguments:
        if shape is None:
            passed.append(f"{own}.address" if kind in Struct.known else own)
            continue
        passed.append(f"memory({own})")
        if kind in variants:
            tests.append(
                f"{own}.dtype is {kinds[kind]}" if kind in kinds else f"{own}.dtype in variants[{kind!r}]"
            )
            kinds.setdefault(kind, f"{own}.dtype")
        else:
            tests.append(f"{own}.dtype is fixed[{kind!r}]")
        for place, letter in enumerate(shape):
            if letter not in told:
                heads.append(f"length_{letter} = {own}.shape[{place}] if {own}.ndim > {place} else 0")
        told.update(shape)
        tests.append(f"{own}.shape == ({''.join(f'length_{letter}, ' for letter in shape)})")
    names = ", ".join(argument.name for argument in arguments)
    types = ", ".join(kinds[letter] for letter in variants)
    values = ", ".join([*(f"length_{letter}" for letter in _lengths(arguments)), *passed])
    lines = [
        "def make(function_of, check, memory, fixed, variants):",
        f"    def {name}({names}):",
        *(f"        {head}" for head in heads),
        f"        if not ({' and '.join(tests) or True}):",
        f"            check({names})",
        f"        return function_of({types})({values})",
        f"    return {name}",
    ]
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    return scope["make"]


def _memory(array: NDArray[Any]) -> Any:
    """Where an array's numbers are, as an argument of a C function.

    ValueError: they are not contiguous.
    """
    try:
        return _MEMORY.from_buffer(array)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # read-only, or not contiguous
        if not array.flags.c_contiguous:
            raise ValueError(
                f"an array of shape {array.shape} for compiled code is not C-contiguous"
            ) from None
        return array.ctypes.data


class Struct:
    """Arrays and numbers that several kernels take together, checked once.

    A subclass declares ``signature`` as a kernel's; the C struct of its name has the lengths first, as
    int64_t, then pointers and numbers. An instance is given where a kernel's signature has the class's name
    as a type; it keeps the arrays, each under its name.
    """

    known: ClassVar[dict[str, type[Struct]]] = {}
    signature: ClassVar[str]
    _layout: ClassVar[type[ctypes.Structure]]

    def __init_subclass__(cls) -> None:
        Struct.known[cls.__name__] = cls
        arguments = _parsed(cls.signature)
        fields: list[Any] = [(f"length_{letter}", ctypes.c_int64) for letter in _lengths(arguments)]
        for own, kind, shape in arguments:
            fields.append((own, _NUMBERS[kind] if shape is None else ctypes.c_void_p))
        cls._layout = type(cls.__name__, (ctypes.Structure,), {"_fields_": fields})

    def __init__(self, *given: Any):
        own = type(self).__name__
        layout = self._layout()
        known: dict[str, int] = {}
        for (name, kind, shape), value in zip(_parsed(self.signature), given, strict=True):
            setattr(self, name, value)
            if shape is None:
                setattr(layout, name, value)
                continue
            if value.dtype != np.dtype(kind):
                raise TypeError(f"{own}: {name} is of {value.dtype}, not {kind}")
            if value.ndim != len(shape) or not value.flags.c_contiguous:
                raise ValueError(f"{own}: {name} is not a contiguous array of {len(shape)} dimensions")
            for letter, length in zip(shape, value.shape, strict=True):
                if known.setdefault(letter, length) != length:
                    told = f"({', '.join(shape)}) with {letter} = {known[letter]}"
                    raise ValueError(f"{own}: {name} has shape {value.shape}, not {told}")
                setattr(layout, f"length_{letter}", length)
            setattr(layout, name, value.ctypes.data)
        self._in_c = layout
        self.address = ctypes.addressof(layout)
