"""Declarations of kernels and C functions fit each other: neither side has one that the other lacks."""

import importlib
import re
from pathlib import Path
from types import FunctionType

import polyopt
from polyopt.native.build import FOLDER

CALLED_BY_NAME = {"processor_level"}  # by the library itself, before a level is chosen
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.[chi]*")}
C = "\n".join(re.sub(r"/\*.*?\*/|_##\w+", "", text, flags=re.DOTALL) for text in SOURCES.values())
NAME = r"(?:JOIN\()*(\w+)"  # of a function, also of one for each type


def declared(folder):
    """Names of the C functions that the modules of a folder declare."""
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\b(?:kernel|in_c)\(\s*\"(\w+)\"", text)}


def stem(name):
    """The name without the type of its numbers."""
    return re.sub(r"_f[48]$", "", name)


KERNELS = declared(Path(polyopt.__file__).parent)
IN_TESTS = declared(Path(__file__).parents[1])


def test_kernels_are_the_functions():
    """Parts of kernels, which tests alone call, are declared there."""
    functions = set(map(stem, re.findall(rf"^ *API \w+ \**{NAME}", C, flags=re.MULTILINE)))
    assert KERNELS <= functions
    assert functions - CALLED_BY_NAME <= KERNELS | IN_TESTS


def test_kernels_have_drawn_calls():
    """A test of drawn arguments calls every kernel."""
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    calls = re.findall(r"@drawn_calls\(((?:\s*\"\w+\",?)+)", text)
    drawn = {name for names in calls for name in re.findall(r"\w+", names)}
    assert KERNELS <= drawn <= KERNELS | IN_TESTS


def functions_of_kernels():
    """Every function of polyopt's modules that calls a kernel."""
    root = Path(polyopt.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if re.search(r"^\w+ = (?:kernel|in_c)\(", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            module = importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
            members = vars(module).values()
            yield from (each for each in members if type(each) is FunctionType and hasattr(each, "returns"))


def untyped():
    """C without the types in names, and without line breaks in macros."""
    text = C.replace("\\\n", " ")
    while (shorter := re.sub(r"\bJOIN\((\w+), \w+\)", r"\1", text)) != text:
        text = shorter
    return text


def parameters(name, count):
    """The declarations of a C function's parameters; the function is the one that takes so many."""
    lists = re.findall(rf"\bAPI \w+ {name}\(([^)]*)\)", untyped())
    return next(found for found in (re.split(r"\s*,\s*", each) for each in lists) if len(found) == count)


def fields(struct):
    """The declarations of a C struct's fields, each with its type."""
    (body,) = re.findall(rf"typedef struct \{{([^{{}}]*)\}} {struct};", untyped())
    declarations = re.findall(r"((?:const )?\w+) ([^;]+);", body)
    return [f"{kind} {name.strip()}" for kind, names in declarations for name in names.split(",")]


def wrongly_marked(arguments, declarations):
    """Arrays that are marked as written and const in C, or neither."""
    of_arguments = zip(arguments, declarations[-len(arguments) :], strict=True)
    return [
        argument.name
        for argument, declaration in of_arguments
        if argument.shape is not None and argument.is_written == declaration.startswith("const ")
    ]


def test_written_arrays_are_marked():
    """Those of kernels, and those of the structs that kernels take."""
    found, structs = {}, {}
    for function in functions_of_kernels():
        arguments = function.arguments
        lengths = {letter for argument in arguments for letter in argument.shape or ()}
        declarations = parameters(function.__name__, len(lengths) + len(arguments))
        found[function.__module__, function.__name__] = wrongly_marked(arguments, declarations)
        for argument, declaration in zip(arguments, declarations[len(lengths) :], strict=True):
            if argument.struct:
                structs[argument.struct] = re.search(r"(\w+) \*", declaration)[1]
    for struct, name_in_c in structs.items():
        found[struct.__module__, struct.__name__] = wrongly_marked(struct.arguments, fields(name_in_c))
    assert {name for _, name in found} >= KERNELS
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_no_function_is_unused():
    """The compiler does not say so of those in headers and templates."""
    functions = re.findall(
        rf"^(?:static|INLINE)\b[\w \n*()]*?\b{NAME}(?:, \w+\))*\([^;]*?\{{", C, flags=re.MULTILINE
    )
    assert len(functions) > 100
    unused = [name for name in functions if len(re.findall(rf"\b(?:{name}|{stem(name)})\b", C)) < 2]
    assert unused == []
