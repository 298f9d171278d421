"""``python -m benchmarks list`` names the benchmarks, ``run`` runs them, ``report`` shows what they left."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from types import ModuleType

from benchmarks import PAGES

# One thread, unless a benchmark says otherwise; set before numpy is imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

NAMES = tuple(name for _, names in PAGES.values() for name in names)
_OWN = ("benchmarks", "formulations", "polyopt")  # of these no part may be missing


def _reason(missing: Exception) -> str:
    """Why a benchmark is left out: its data, or a rival's package, are not here."""
    if not isinstance(missing, ModuleNotFoundError):
        return str(missing)
    package = (missing.name or "").partition(".")[0]
    if package in ("", *_OWN):
        raise missing
    return f"{package} is not installed; pip install 'polyopt[bench]' has what rivals need"


def main(words: Sequence[str] | None = None, modules: Mapping[str, ModuleType] | None = None) -> None:
    """Obey the words of the command line; the modules are the benchmarks, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the benchmarks")
    run = commands.add_parser("run", help="run benchmarks, all of them by default")
    run.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    run.add_argument("--smoke", action="store_true", help="the least that shows that they run")
    run.add_argument(
        "--kept", action="store_true", help="a table from the cells that are kept, of those that keep cells"
    )
    commands.add_parser("report", help="write RESULTS.md, its pages, and the README's table of speed")
    arguments = parser.parse_args(words)
    from benchmarks.helpers.kept import keep, machine_facts
    from benchmarks.helpers.pages import write_results, write_speed
    from polyopt.datasets import DatasetUnavailable

    modules = modules or {name: import_module(f"benchmarks.{name}") for name in NAMES}
    if arguments.command == "list":
        for name, module in modules.items():
            print(f"{name:<16} {module.__doc__.splitlines()[0]}")
        return
    if arguments.command == "report":
        print(*write_results(), write_speed(), sep="\n")
        return
    unknown = set(arguments.names) - set(modules)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(modules)}")
    few: dict[str, bool] = {"smoke": True} if arguments.smoke else {}
    names = arguments.names or list(modules)
    if arguments.kept:
        having = [name for name in modules if "kept" in signature(modules[name].run).parameters]
        if not set(arguments.names) <= set(having):
            parser.error(f"--kept is for {', '.join(having)}")
        few, names = {"kept": True}, arguments.names or having
    print(f"{machine_facts()}, one thread\n")
    for name in names:
        started = time.perf_counter()
        try:
            table = modules[name].run(**few)
        except (DatasetUnavailable, ModuleNotFoundError) as missing:
            reason = _reason(missing)
            if arguments.names:
                run.exit(1, f"{name}: {reason}\n")
            print(f"{name}: left out. {reason}\n")
            continue
        if not few or arguments.kept:
            keep(name, table, time.perf_counter() - started)
        print(f"{name}: {modules[name].__doc__.splitlines()[0]}")
        print(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
        print(f"({time.perf_counter() - started:.1f} s)\n")


if __name__ == "__main__":
    main()
