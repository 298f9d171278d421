"""Calls of the compiled kernels: a signature is declared once, and arrays are checked against it before C.

``kernel("square_norms", "X: T (n, m); centre: f8 (m); squares!: f8 (n)", T="f4 f8")`` is a function of three
arrays. Types are numpy's (f4, f8, i8, i4, u2, u1, i1, b1). T stands for one of several; the C function of a
call is then named with the types taken, as ``square_norms_f4``. An argument without parentheses is a number
(f8, f4, i8) or an instance of a :class:`Struct`, whose class is named as the type. ``returns`` is the type of
a number that comes back.

Each letter in parentheses is a length: the first argument that has it tells it, and the others must agree,
structs included. The C function receives the lengths of the signature's own arrays first, in the order in
which they appear, then the arguments.

Arrays are C-contiguous and aligned, and none is copied. One that is not so is copied where it is only read:
that costs time, and is for columns of a matrix or for messages from other processes. A kernel writes in
place, and only to arrays marked with ``!``: the others may be read-only. The interpreter's lock is let go
while a kernel runs.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    Types = Mapping[str, list[np.dtype[Any]]]  # those that each letter stands for


LIBRARIES = Path(os.environ.get("POLYOPT_LIBRARIES") or Path(__file__).parent / "lib")
_NUMBERS = {"f8": ctypes.c_double, "i8": ctypes.c_int64, "f4": ctypes.c_float}
_PACKED = {"f8": "d", "i8": "q", "f4": "f"}  # numbers' formats in the module struct
_ARGUMENT = re.compile(r"([A-Za-z]\w*)(!?): *(\w+) *(?:\(([^)]*)\))?$")
# The numbers of an array that is contiguous and may be written, as an argument of a C function.
_memory = (ctypes.c_char * 0).from_buffer


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


class Argument(NamedTuple):
    """An argument of a signature."""

    name: str
    kind: str  # its type: one of numpy's, a letter that stands for several, or a struct's name
    shape: tuple[str, ...] | None  # the letters of an array's lengths; None for a number or a struct
    is_written: bool  # True for an array that the kernel writes to

    @property
    def struct(self) -> type[Struct] | None:
        """The class that the argument is an instance of; None for arrays and numbers."""
        return Struct.known.get(self.kind) if self.shape is None else None


def _parsed(owner: str, signature: str) -> list[Argument]:
    found = []
    for part in signature.split(";"):
        match = _ARGUMENT.match(part.strip())
        if match is None:
            raise ValueError(f"{owner}: not an argument: {part.strip()!r}")
        name, mark, kind, shape = match.groups()
        lengths = None if shape is None else tuple(letter.strip() for letter in shape.split(","))
        found.append(Argument(name, kind, lengths, bool(mark)))
    return found


def _lengths(arguments: Sequence[Argument]) -> list[str]:
    """All letters of arrays, in the order in which they appear."""
    return list(dict.fromkeys(letter for argument in arguments for letter in argument.shape or ()))


def _types(types: Mapping[str, str]) -> Types:
    return {letter: [np.dtype(kind) for kind in kinds.split()] for letter, kinds in types.items()}


def kernel(
    name: str, signature: str, loaded: Callable[[], Any] = _library, /, *, returns: str | None = None,
    **types: str,
) -> Callable[..., Any]:  # fmt: skip
    """The C function of this name as a function of arrays, numbers and structs.

    name, signature, returns: as the module says.
    loaded: returns the library that has the function.
    types: for each type that varies, those that it may be, parted by blanks. The C function is named with
        the structs' types first. A Struct is declared before the kernels that take it.
    """
    own_types = _types(types)
    arguments = _parsed(name, signature)
    lengths = _lengths(arguments)

    @cache
    def function_of(*kinds: np.dtype[Any]) -> Any:
        """The C function for these types: of the structs, and one for each letter of `types`."""
        names = [kind.str[1:] for kind in kinds]
        of = dict(zip(types, names[len(names) - len(types) :], strict=True))
        function = getattr(loaded(), "_".join([name, *names]))
        function.argtypes = [ctypes.c_int64] * len(lengths) + [
            ctypes.c_void_p
            if argument.shape is not None or argument.struct
            else _NUMBERS[of.get(argument.kind, argument.kind)]
            for argument in arguments
        ]
        function.restype = None if returns is None else _NUMBERS[of.get(returns, returns)]
        return function

    def called_with_care(*given: Any) -> Any:
        """The same for arrays that are read-only or apart in memory, and an error for what does not fit."""
        given = tuple(map(_as_read, arguments, given))
        known, kinds = _checked(name, arguments, own_types, given)
        return function_of(*kinds)(*(known[letter] for letter in lengths), *map(_address, given))

    passed = [
        f"_memory({own.name})" if own.shape is not None else f"{own.name}.address" if own.struct else own.name
        for own in arguments
    ]
    result = (
        "_function_of({kinds})(" + ", ".join([*(f"length_{letter}" for letter in lengths), *passed]) + ")"
    )
    made = _written_out(name, arguments, own_types, result, called_with_care, _function_of=function_of)
    made.arguments, made.types, made.returns = arguments, own_types, returns  # type: ignore[attr-defined]
    return made


def _as_read(argument: Argument, value: Any) -> Any:
    """An argument; of an array that is only read, and is not contiguous or not aligned, a copy that is."""
    if not isinstance(value, np.ndarray) or argument.is_written:
        return value
    return np.require(value, requirements=["C", "A"])


def _address(value: Any) -> Any:
    """The value that C receives for an argument."""
    return value.ctypes.data if isinstance(value, np.ndarray) else getattr(value, "address", value)


def _checked(
    owner: str, arguments: Sequence[Argument], types: Types, given: Sequence[Any]
) -> tuple[dict[str, int], list[np.dtype[Any]]]:
    """Lengths by their letters, and the types taken: of the structs, and one for each letter of `types`.

    TypeError, ValueError: arguments that do not fit.
    """
    known: dict[str, int] = {}
    kinds: dict[str, np.dtype[Any]] = {}
    of_structs: list[np.dtype[Any]] = []
    for argument, value in zip(arguments, given, strict=True):
        name, kind, shape, is_written = argument
        if argument.struct is not None:
            if type(value) is not argument.struct:
                raise TypeError(f"{owner}: {name} is a {type(value).__name__}, not a {kind}")
            of_structs += value.kinds
            has = list(value.lengths.items())
        elif shape is None:
            continue
        else:
            if not isinstance(value, np.ndarray):
                raise TypeError(f"{owner}: {name} is a {type(value).__name__}, not an array")
            allowed = [kinds[kind]] if kind in kinds else types.get(kind) or [np.dtype(kind)]
            if value.dtype not in allowed:
                raise TypeError(f"{owner}: {name} is of {value.dtype}, not {' or '.join(map(str, allowed))}")
            kinds[kind] = value.dtype
            if value.ndim != len(shape):
                raise ValueError(f"{owner}: {name} has {value.ndim} dimensions, not {len(shape)}")
            if not value.flags.c_contiguous:
                raise ValueError(f"{owner}: {name}, of shape {value.shape}, is not C-contiguous")
            if not value.flags.aligned:
                raise ValueError(f"{owner}: {name} is not aligned in memory")
            if is_written and not value.flags.writeable:
                raise ValueError(f"{owner}: {name} is read-only, and would be written")
            has = list(zip(shape, value.shape, strict=True))
        for letter, length in has:
            if known.setdefault(letter, length) != length:
                told = f"{letter} = {known[letter]}"
                if shape is None:
                    raise ValueError(f"{owner}: {name} has {letter} = {length}, not {told}")
                told = f"({', '.join(shape)}) with {told}"
                raise ValueError(f"{owner}: {name} has shape {value.shape}, not {told}")
    return known, [*of_structs, *(kinds[letter] for letter in types)]


def _written_out(
    name: str, arguments: Sequence[Argument], types: Types, result: str, otherwise: Callable[..., Any],
    **scope: Any,
) -> Callable[..., Any]:  # fmt: skip
    """A function of the arguments, written for each signature as dataclasses write methods.

    One expression tells whether all is as it mostly is, as calls may be many: the arguments fit, and all
    arrays may be written.

    result: the code of what is then returned, in which {kinds} are the types taken.
    otherwise: what is called if not.
    scope: names that `result` has.
    """
    tests: list[str] = []
    kinds: dict[str, str] = {}  # where each letter's type is first seen
    of_structs: list[str] = []
    told: set[str] = set()
    for argument in arguments:
        own, kind, shape, _ = argument
        if argument.struct is not None:
            tests.append(f"_type({own}) is _struct_{kind}")
            scope[f"_struct_{kind}"] = argument.struct
            of_structs += [f"*{own}.kinds"] if argument.struct.types else []
            has = [(letter, f"{own}.lengths[{letter!r}]") for letter in _lengths(argument.struct.arguments)]
        elif shape is None:
            continue
        else:
            if kind in kinds:
                tests.append(f"{own}.dtype is {kinds[kind]}")
            elif kind in types:
                tests.append(f"{own}.dtype in _types_{kind}")
                scope[f"_types_{kind}"], kinds[kind] = types[kind], f"{own}.dtype"
            else:
                tests.append(f"{own}.dtype is _dtype_{kind}")
                scope[f"_dtype_{kind}"] = np.dtype(kind)
            tests += [f"{own}.ndim == {len(shape)}", f"{own}.flags.carray"]
            has = [(letter, f"{own}.shape[{place}]") for place, letter in enumerate(shape)]
        for letter, length in has:
            tests.append(
                f"length_{letter} == {length}" if letter in told else f"(length_{letter} := {length}) >= 0"
            )
            told.add(letter)
    names = ", ".join(argument.name for argument in arguments)
    taken = ", ".join([*of_structs, *(kinds[letter] for letter in types)])
    lines = [
        f"def {name}({names}):",
        "    try:",
        f"        if {' and '.join(tests) or True}:",
        f"            return {result.format(kinds=taken)}",
        "    except AttributeError:  # something is not an array",
        "        pass",
        f"    return _otherwise({names})",
    ]
    scope |= {"_type": type, "_memory": _memory, "_otherwise": otherwise}
    exec("\n".join(lines), scope)
    return scope[name]


class Struct:
    """Arrays and numbers that several kernels take together, checked once.

    A subclass declares ``signature`` as a kernel's, and ``types`` for those types in it that vary. The C
    struct has the lengths first, as int64_t, then pointers and numbers. An instance is given where a
    kernel's signature has the class's name as a type. It keeps the arrays, each under its name; others
    cannot take their place, as C would not know of them.
    """

    known: ClassVar[dict[str, type[Struct]]] = {}
    signature: ClassVar[str]
    types: ClassVar[dict[str, str]] = {}
    arguments: ClassVar[list[Argument]]
    _names: ClassVar[frozenset[str]] = frozenset()
    _packed: ClassVar[Callable[..., Any]]
    kinds: list[np.dtype[Any]]  # the types taken, one for each letter of ``types``
    lengths: dict[str, int]  # lengths by their letters
    address: int  # of the C struct

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The array or number of this name, of the signature."""

    def __init_subclass__(cls) -> None:
        name, types = cls.__name__, _types(cls.types)
        cls.arguments = arguments = _parsed(name, cls.signature)
        cls._names = frozenset(argument.name for argument in arguments)
        letters = _lengths(arguments)
        formats = ["P" if own.shape is not None else _PACKED[own.kind] for own in arguments]
        pack = struct.Struct("q" * len(letters) + "".join(formats)).pack

        def packed_with_care(*given: Any) -> Any:
            known, kinds = _checked(name, arguments, types, given)
            return kinds, known, pack(*known.values(), *map(_address, given))

        told = ", ".join(f"{letter!r}: length_{letter}" for letter in letters)
        values = [f"length_{letter}" for letter in letters] + [
            f"_address(_memory({own.name}))" if own.shape is not None else own.name for own in arguments
        ]
        result = f"[{{kinds}}], {{{{{told}}}}}, _pack({', '.join(values)})"
        cls._packed = staticmethod(
            _written_out(
                name, arguments, types, result, packed_with_care, _address=ctypes.addressof, _pack=pack
            )
        )
        Struct.known[name] = cls

    def __init__(self, *given: Any):
        kinds, lengths, packed = self._packed(*given)
        in_c = _memory(bytearray(packed))
        self.__dict__.update(
            zip((argument.name for argument in self.arguments), given, strict=True),
            kinds=kinds, lengths=lengths, address=ctypes.addressof(in_c), _in_c=in_c,
        )  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._names:
            raise AttributeError(f"{type(self).__name__}: {name} is fixed; its entries may be set")
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} holds addresses, and cannot be copied")
