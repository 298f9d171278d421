"""Compile the kernels: a hook of hatchling, run when a wheel or an editable installation is built.

Every ``*.c`` of this folder goes into one shared library, which is built several times over: on x86-64 for
processors of three levels (v2, v3 with AVX2 and fused products, v4 with AVX-512), elsewhere once. The level
is chosen when the library is loaded, so that no instruction is met that the processor lacks.

The compiler is ``$CC``, or else the first of cc, gcc and clang that compiles for the highest level. If none
does, it is that of the package ``ziglang``, which is a requirement of the build only then. In a checkout,
``python polyopt/native/build.py`` compiles in place.
"""

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
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
    "-fno-trapping-math", "-Wall", "-Wextra", "-Werror=implicit-function-declaration", "-Wno-psabi",
    "-Wno-unused-function", "-Wno-unused-parameter",
]  # fmt: skip
# Products and sums are fused by the compiler's default: gcc does so wherever it can, clang in an expression.
# With -ffp-contract=fast clang fuses a loop's vectors in another way than its rest, so that a result would
# depend on where samples are cut. Nothing is fused where a proof counts roundings, or equal products cancel.
UNFUSED = "/* unfused */"  # the first line of such a file
SANITIZERS = [
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1",
]  # fmt: skip


def levels() -> tuple[str, ...]:
    """Instruction sets to build for; "default" is the compiler's own."""
    machines = re.findall(r"-arch (\S+)", " ".join(_architectures())) or [platform.machine().lower()]
    return X86_LEVELS if set(machines) <= {"x86_64", "amd64"} else ("default",)


def _architectures() -> list[str]:
    """Flags of the processors to build for, which macOS's builds for another one name."""
    return shlex.split(os.environ.get("ARCHFLAGS", "")) if sys.platform == "darwin" else []


def compiler() -> list[str]:
    """Command of the C compiler.

    RuntimeError: there is none, or that of the environment variable CC does not work.
    """
    if found := own_compiler():
        return found
    try:
        import ziglang  # noqa: F401
    except ModuleNotFoundError:
        raise RuntimeError(
            "polyopt's kernels are written in C, and no compiler was found: install gcc 11 or clang 12 or "
            "later, name one in the environment variable CC, or run `pip install ziglang`, which brings one"
        ) from None
    return [sys.executable, "-m", "ziglang", "cc"]


def own_compiler() -> list[str] | None:
    """Command of the machine's own C compiler; None if there is none that works.

    RuntimeError: that of the environment variable CC does not work.
    """
    if command := shlex.split(os.environ.get("CC", "")):
        if complaint := _complaint(command):
            raise RuntimeError(
                "polyopt's kernels are written in C, and the compiler that the environment variable CC names "
                f"does not work; unset CC, or name another (gcc 11 or clang 12 or later). {complaint}"
            )
        return command
    found = (shutil.which(name) for name in ("cc", "gcc", "clang"))
    return next(([path] for path in found if path and not _complaint([path])), None)


def _complaint(command: list[str]) -> str | None:
    """Compile and link one file for the highest level; returns what is wrong, None if nothing is."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            made = compile_c(command, FOLDER / "processor.c", levels()[-1], Path(scratch))
            link(command, [made], Path(scratch, "kernels.so"))
        except (OSError, RuntimeError) as error:
            return str(error)
    return None


def build(folder: Path = LIBRARIES, *, sanitize: bool = False) -> list[Path]:
    """Compile all kernels into one library for each level; returns the libraries' paths.

    RuntimeError: there is no compiler, or it failed; the message has what it printed.
    """
    command = compiler()
    folder.mkdir(parents=True, exist_ok=True)
    sources, made = sorted(FOLDER.glob("*.c")), []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        scratch = Path(name)
        objects = {
            level: [pool.submit(compile_c, command, source, level, scratch, sanitize) for source in sources]
            for level in levels()
        }
        for level, parts in objects.items():
            library = scratch / f"kernels.{level}.so"
            link(command, [part.result() for part in parts], library, sanitize)
            made.append(folder / library.name)
            shutil.copy(library, f"{made[-1]}.new")  # a process that has loaded the former library keeps it
            os.replace(f"{made[-1]}.new", made[-1])
    return made


def compile_c(command: list[str], source: Path, level: str, scratch: Path, sanitize: bool = False) -> Path:
    """Compile one file for one level; returns the object file."""
    made = scratch / f"{source.stem}.{level}.o"
    with source.open(encoding="utf-8") as stream:
        unfused = ["-ffp-contract=off"] if stream.readline().strip() == UNFUSED else []
    extra = [*target_flags(command, level), *unfused, *(SANITIZERS if sanitize else [])]
    _run([*command, *FLAGS, *extra, "-c", str(source), "-o", str(made)], scratch)
    return made


def target_flags(command: list[str], level: str) -> list[str]:
    """Flags of the instruction set."""
    if "ziglang" in command:  # it names processors in its own way, and takes the one at hand unless told
        return ["-mcpu=baseline" if level == "default" else f"-mcpu={level.replace('-', '_')}"]
    return [*_architectures(), *([] if level == "default" else [f"-march={level}"])]


def link(command: list[str], objects: list[Path], library: Path, sanitize: bool = False) -> None:
    """Link object files into a library."""
    names = [] if sanitize or sys.platform == "darwin" else ["-s"]  # without names and lines for debuggers
    extra = [*_architectures(), *names, *(SANITIZERS if sanitize else [])]
    _run([*command, *extra, "-shared", *map(str, objects), "-lm", "-o", str(library)], library.parent)


def _run(command: list[str], scratch: Path) -> None:
    """Run a compiler, whose caches go into a folder that is removed at the end."""
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(scratch / "zig"), "ZIG_LOCAL_CACHE_DIR": str(scratch / "zig")}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **caches})
    if done.returncode:
        raise RuntimeError(f"This failed: {shlex.join(command)}\n{done.stderr[-4000:]}")


class NativeBuild(BuildHookInterface):
    """Compiles before the files of a wheel are gathered, and names the wheel by its platform."""

    def dependencies(self) -> list[str]:
        """Return the package that has a compiler if the machine has none of its own."""
        if self.target_name != "wheel":
            return []
        try:
            return [] if own_compiler() else ["ziglang"]
        except RuntimeError:
            return []  # the build will say it

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and take the libraries into the wheel."""
        if self.target_name != "wheel":
            return
        try:
            libraries = build()
        except RuntimeError as error:
            self.app.abort(str(error))
        build_data["artifacts"] += [str(library.relative_to(self.root)) for library in libraries]
        build_data["pure_python"] = False
        *_, platform_tag = self.build_config.builder.get_best_matching_tag().split("-")
        build_data["tag"] = f"py3-none-{platform_tag}"


def main() -> None:
    """Compile by hand."""
    parser = argparse.ArgumentParser(description="Compile polyopt's kernels.")
    parser.add_argument("folder", type=Path, nargs="?", default=LIBRARIES, help="where the libraries go")
    parser.add_argument("--sanitize", action="store_true", help="check addresses and undefined behaviour")
    arguments = parser.parse_args()
    for path in build(arguments.folder, sanitize=arguments.sanitize):
        print(path)


if __name__ == "__main__":
    main()
