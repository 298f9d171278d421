"""Generated pages: programs with their demonstrations, commands, reference, and kept results."""

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

from formulations import FAMILIES, family
from polyopt.methods.programs import pairs_of, programs_of

# Modules of the reference, besides the public names of polyopt.
MODULES = (
    "formulations.language.program", "formulations.language.statement", "formulations.language.consistency",
    "formulations.error_bounds.margin_bounds", "formulations.mixture", "formulations.polyhedral",
    "formulations.error_bounds.rademacher", "formulations.language.toy_data",
    "polyopt.check.check", "polyopt.compare", "polyopt.datasets", "polyopt.exercises", "polyopt.explanations",
    "polyopt.lab", "polyopt.lab.widget", "polyopt.methods", "polyopt.models.explained",
    "polyopt.models.rules", "polyopt.plots", "polyopt.polytope", "polyopt.scale", "polyopt.verify",
)  # fmt: skip


def program_pages(families: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield name and Markdown text of the page of each family of programs, whose pairs are solved for it."""
    for name in FAMILIES if families is None else families:
        module = family(name)
        words, _, rest = (inspect.getdoc(module) or "").partition("\n\n")
        title = words.removesuffix(".").partition(": ")[0]
        parts = [f"# {title}", f"{words}\n\n`polyopt show {name}`"]
        for program in programs_of(name):
            parts.append(f"## {program}\n\n```{{program}} {program}\n```")
        shown = "\n\n".join(pair.demonstrate() for pair in pairs_of(name, module))
        told = "Each primal and its dual, solved on the family's small data, and the way back."
        parts.append(f"## Demonstration\n\n{told}\n\n```text\n{shown}\n```")
        parts.append(f"## In plain text\n\n```text\n{rest.rstrip()}\n```")
        yield name, "\n\n".join(parts) + "\n"


def command_page() -> str:
    """Return a page of all commands with their arguments and options, in Markdown."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from polyopt.cli import app

    group = get_command(app)
    context = typer.Context(group, info_name="polyopt")
    return get_docs_for_click(obj=group, ctx=context, name="polyopt", title="Commands")


def public_names() -> list[str]:
    """Return the public names of polyopt that have pages of their own."""
    import polyopt

    return [name for name in polyopt.__all__ if name != "datasets"]


def api_pages(names: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield name and text of each page of the reference, whose docstrings are read at the build.

    The pages are of the public `names` of polyopt; by default of all, and of :data:`MODULES`.
    """
    import polyopt

    for name in public_names() if names is None else names:
        thing = getattr(polyopt, name)
        kind = "autoclass" if inspect.isclass(thing) else "autofunction"
        home = f"{thing.__module__}.{name}" if hasattr(thing, "__module__") else f"polyopt.{name}"
        members = ["   :members:"] if kind == "autoclass" else []
        body = "\n".join([f".. {kind}:: {home}", *members])
        yield name, f"# {name}\n\n`from polyopt import {name}`\n\n```{{eval-rst}}\n{body}\n```\n"
    for module in MODULES if names is None else ():
        body = f".. automodule:: {module}\n   :members:"
        yield module, f"# {module}\n\n```{{eval-rst}}\n{body}\n```\n"


def results_pages() -> Iterator[tuple[str, str]]:
    """Yield the pages of the kept results, in Markdown without pictures; none if there are no results.

    The front page is ``results``, the others are ``results/pages/...``. A wheel has copies of RESULTS.md and
    results/pages beside this file; a clone has them in ``benchmarks/``.
    """
    packaged, clone = Path(str(resources.files("polyopt.handbook"))), Path(__file__).parents[2] / "benchmarks"
    fronts = (packaged / "results.md", clone / "RESULTS.md")
    front = next((place for place in fronts if place.is_file()), None)
    if front is None:
        return
    pages = {f"results/pages/{path.stem}": path for path in (front.parent / "results/pages").glob("*.md")}
    listed = "\n".join(sorted(pages))
    yield "results", f"{front.read_text(encoding='utf-8')}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    for name, path in pages.items():
        yield name, re.sub(r"^!\[[^\]]*\]\([^)]*\)\n*", "", path.read_text(encoding="utf-8"), flags=re.M)
