"""Compile the kernels: a hook of hatchling, run when a wheel or an editable installation is built.

Every ``*.c`` of this folder goes into one shared library, which is built several times over: on x86-64 for
processors of three levels (v2, v3 with AVX2 and fused products, v4 with AVX-512), elsewhere once. The level
is chosen when the library is loaded, so that no instruction is met that the processor lacks.

The compiler is ``$CC``, or else cc, gcc or clang; where there is none, that of the package ``ziglang``, which
is asked for as a requirement of the build only then. In a checkout, ``python polyopt/native/build.py``
compiles in place.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # compiled by hand
    BuildHookInterface = object

FOLDER = Path(__file__).parent
LIBRARIES = FOLDER / "lib"
X86_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
FLAGS = [
    "-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-fopenmp-simd", "-fno-math-errno",
    "-fno-trapping-math", "-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-function", "-Wno-unused-parameter",
]  # fmt: skip
# Products and sums are fused but where a proof counts roundings, or equal products must cancel.
UNFUSED = "/* unfused */"  # the first line of such a file
SANITIZERS = [
    "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1",
]  # fmt: skip


def levels() -> tuple[str, ...]:
    """Instruction sets to build for; one without a name is the compiler's default."""
    return X86_LEVELS if platform.machine().lower() in ("x86_64", "amd64") else ("default",)


def compiler() -> list[str]:
    """Command of the C compiler.

    RuntimeError: there is none.
    """
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    try:
        import ziglang  # noqa: F401
    except ModuleNotFoundError:
        raise RuntimeError(
            "polyopt's kernels are written in C, and no compiler was found: install gcc or clang, name one "
            "in the environment variable CC, or run `pip install ziglang`, which brings one"
        ) from None
    return [sys.executable, "-m", "ziglang", "cc"]


def build(folder: Path = LIBRARIES, *, sanitize: bool = False) -> list[Path]:
    """Compile all kernels into one library for each level; returns the libraries' paths.

    RuntimeError: there is no compiler, or it failed; the message has what it printed.
    """
    command = compiler()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        return [_build(command, level, folder, Path(scratch), sanitize) for level in levels()]


def _build(command: list[str], level: str, folder: Path, scratch: Path, sanitize: bool) -> Path:
    def compile_one(source: Path) -> Path:
        made = scratch / f"{source.stem}.{level}.o"
        _run([*command, *_flags(source, level, sanitize), "-c", source, "-o", made])
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sorted(FOLDER.glob("*.c"))))
    name = f"kernels.{level}.so"
    linked = scratch / name
    _run([*command, *(SANITIZERS if sanitize else []), "-shared", *objects, "-lm", "-o", linked])
    shutil.copy(linked, folder / f"{name}.new")  # a process that has loaded the former library keeps it
    os.replace(folder / f"{name}.new", folder / name)
    return folder / name


def _flags(source: Path, level: str, sanitize: bool) -> list[str]:
    with source.open(encoding="utf-8") as stream:
        fused = "off" if stream.readline().strip() == UNFUSED else "fast"
    march = [] if level == "default" else [f"-march={level}"]
    return [*FLAGS, f"-ffp-contract={fused}", *march, *(SANITIZERS if sanitize else [])]


def _run(command: list[Any]) -> None:
    words = [str(word) for word in command]
    if "ziglang" in words:  # which names processors with underscores
        words = [word.replace("-march=x86-64-", "-mcpu=x86_64_") for word in words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"polyopt's kernels could not be compiled: {shlex.join(words)}\n{done.stderr[-4000:]}"
        )


class NativeBuild(BuildHookInterface):
    """Compiles before the files of a wheel are gathered, and names the wheel by its platform."""

    def dependencies(self) -> list[str]:
        """A compiler, where the machine has none."""
        try:
            compiler()
        except RuntimeError:
            return ["ziglang"]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and take the libraries into the wheel."""
        if self.target_name != "wheel":
            return
        for library in build():
            build_data["artifacts"].append(str(library.relative_to(self.root)))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    for path in build(
        Path(sys.argv[1]) if len(sys.argv) > 1 else LIBRARIES, sanitize="--sanitize" in sys.argv
    ):
        print(path)
