"""The sources of the site in one folder, laid out as the package is, so that links hold there too."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["hand_written", "write_sources"]


def package() -> Path:
    """The folder of polyopt."""
    return Path(str(resources.files("polyopt")))


def hand_written() -> dict[str, Path]:
    """The pages by hand by their short names, such as ``rmm`` or ``tour``: where each is in the package."""
    root = package()
    found = [*root.glob("handbook/chapters/*.md"), *root.glob("handbook/*.md"), root / "check/FORMAT.md"]
    apart = ("index", "results")
    return {path.stem.lower(): path.relative_to(root) for path in sorted(found) if path.stem not in apart}


def write_sources(
    folder: Path, *, families: Iterable[str] | None = None, names: Iterable[str] | None = None,
    demonstrate: bool = True, results: bool = True,
) -> None:  # fmt: skip
    """Write the sources of the site.

    folder: where to; it is there, and empty.
    families, names: which programs and which public names have a page; all by default.
    demonstrate: whether the programs are solved.
    results: whether the kept results have pages, if they are at hand.
    """
    # Here, for a site that is kept is opened without the programs.
    from polyopt.handbook.generated import api_pages, command_page, program_pages, results_pages

    for path in hand_written().values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package() / path, folder / path)
    for path in sorted(package().glob("handbook/notebooks/*.ipynb")):
        target = folder / "handbook" / "notebooks" / f"{path.stem}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_notebook(path), encoding="utf-8")
    write = {
        "programs": program_pages(families, demonstrate=demonstrate),
        "api": api_pages(names),
    }
    for part, pages in write.items():
        (folder / part).mkdir()
        listed = []
        for name, text in pages:
            (folder / part / f"{name}.md").write_text(text, encoding="utf-8")
            listed.append(name)
        (folder / part / "index.md").write_text(_list_of(part, listed), encoding="utf-8")
    (folder / "commands.md").write_text(command_page(), encoding="utf-8")
    kept = dict(results_pages()) if results else {}
    for name, text in kept.items():
        (folder / f"{name}.md").parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    index = (package() / "handbook/index.md").read_text(encoding="utf-8")
    index = index.replace("](chapters/", "](handbook/chapters/")  # it stands above all others here
    if not kept:
        index = index.replace("\nresults\n", "\n")
    (folder / "index.md").write_text(index, encoding="utf-8")


_HEADS = {
    "programs": "# Programs\n\nEvery program with its mathematics, its letters, its dual and a "
    "demonstration.\nThe formula that is shown is read and evaluated on random numbers by a test, against "
    "what is computed.",
    "api": "# Reference\n\nWhat there is to import, from the docstrings.",
}


def _list_of(part: str, names: list[str]) -> str:
    return _HEADS[part] + "\n\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"


def _notebook(path: Path) -> str:
    """A notebook as a page: its words and its code, to be run where it is."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"]).rstrip()
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    where = f"This is the notebook `polyopt/handbook/notebooks/{path.name}`, without what its code shows."
    first, *others = parts
    return "\n\n".join([first, where, *others]) + "\n"
