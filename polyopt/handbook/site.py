"""The handbook as a site, built by Sphinx and cached until its sources change.

Sphinx with MyST and the theme furo makes pages of Markdown with formulas and of docstrings, and a search that
works in files. ``pip install 'polyopt[handbook]'`` installs them.
"""

import hashlib
import io
import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import formulations
import polyopt
from polyopt.base.files import check_folder, replacing_folder
from polyopt.base.text import visible


def package() -> Path:
    """Return the folder of polyopt."""
    return Path(str(resources.files("polyopt")))


def hand_written() -> dict[str, Path]:
    """Return the paths of the handwritten pages in the package, by short names such as ``rmm``."""
    root = package()
    pages = [*root.glob("handbook/chapters/*.md"), *root.glob("handbook/*.md"), root / "check/FORMAT.md"]
    others = ("index", "results")
    return {path.stem.lower(): path.relative_to(root) for path in sorted(pages) if path.stem not in others}


def write_sources(
    folder: Path, *, families: Iterable[str] | None = None, names: Iterable[str] | None = None,
    results: bool = True,
) -> None:  # fmt: skip
    """Write the sources of the site into an empty folder.

    By default all families of programs and all public names have pages; if `results`, the kept results do,
    as far as they are installed.
    """
    # Imported here, as a cached site is opened without the programs.
    from polyopt.handbook.generated import api_pages, command_page, program_pages, results_pages

    for path in hand_written().values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package() / path, folder / path)
    for path in sorted(package().glob("handbook/notebooks/*.ipynb")):
        target = folder / "handbook" / "notebooks" / f"{path.stem}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_notebook_page(path), encoding="utf-8")
    write = {"programs": program_pages(families), "api": api_pages(names)}
    for part, pages in write.items():
        (folder / part).mkdir()
        listed = []
        for name, text in pages:
            (folder / part / f"{name}.md").write_text(text, encoding="utf-8")
            listed.append(name)
        tree = "\n\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(listed) + "\n```\n"
        (folder / part / "index.md").write_text(_HEADS[part] + tree, encoding="utf-8")
    (folder / "commands.md").write_text(command_page(), encoding="utf-8")
    kept = dict(results_pages()) if results else {}
    for name, text in kept.items():
        (folder / f"{name}.md").parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    index = (package() / "handbook/index.md").read_text(encoding="utf-8")
    index = index.replace("](chapters/", "](handbook/chapters/")  # the index is at the root here
    if not kept:
        index = index.replace("\nresults\n", "\n")
    (folder / "index.md").write_text(index, encoding="utf-8")


_HEADS = {
    "programs": "# Programs\n\nEvery program with its mathematics, its letters, its dual and a "
    "demonstration.\nThe formula that is shown is read and evaluated on random numbers by a test, against "
    "what is computed.",
    "api": "# Reference\n\nWhat there is to import, from the docstrings.",
}


def _notebook_page(path: Path) -> str:
    """Return a notebook as a page of its text and code."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"]).rstrip()
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    where = f"This is the notebook `polyopt/handbook/notebooks/{path.name}`, without what its code shows."
    first, *others = parts
    return "\n\n".join([first, where, *others]) + "\n"


MARK = ".polyopt-handbook"
"""Name of a file that marks a folder as a handbook, which may be replaced."""

_NEEDED = ("sphinx", "myst_parser", "furo")
# scikit-learn makes these methods; their docstrings link to its own pages.
_OF_OTHERS = [f"set_{what}_request" for what in ("fit", "partial_fit", "predict", "score", "transform")]
_SETTINGS: dict[str, Any] = {
    "project": "polyopt",
    "author": "The polyopt developers",
    "extensions": [
        "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "polyopt.handbook.extension",
    ],
    "html_theme": "furo",
    "html_math_renderer": "polyopt",
    "html_static_path": [],
    "html_copy_source": False,
    "html_show_search_summary": False,  # a page in a file may not fetch it
    "html_show_copyright": False,
    "myst_enable_extensions": ["dollarmath"],
    "myst_heading_anchors": 3,
    "napoleon_google_docstring": False,
    "napoleon_use_rtype": False,
    "autodoc_member_order": "bysource",
    "autodoc_typehints": "none",
    "autodoc_use_type_comments": False,
    "autodoc_default_options": {"exclude-members": ", ".join(_OF_OTHERS)},
    "napoleon_custom_sections": [("Attributes", "params_style")],  # a list, as of parameters
    "suppress_warnings": ["ref.python"],  # names in docstrings with several meanings
    "highlight_language": "text",
    "toc_object_entries": False,
    "maximum_signature_line_length": 88,
    "smartquotes": False,
}  # fmt: skip


_TITLE = '<article role="main" id="furo-main-content">'
_CHANGES = (
    ('class="caption" role="heading">', 'class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="The handbook">'),
    ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
    ('<div class="table-wrapper docutils container">',
     '<div class="table-wrapper docutils container" tabindex="0">'),
    ("<pre>", '<pre tabindex="0">'),
)  # fmt: skip


def check_installed() -> None:
    """Refuse to build without Sphinx, MyST and furo, or without docstrings."""
    if sys.flags.optimize > 1:
        raise ValueError("the handbook is made of docstrings, which Python leaves out with -OO and "
                         "PYTHONOPTIMIZE=2: run it without")  # fmt: skip
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ValueError(f"the handbook is built by Sphinx, MyST and furo ({', '.join(missing)} missing): "
                         "pip install 'polyopt[handbook]'")  # fmt: skip


def digest() -> str:
    """Return a digest of all sources of the site, of the version and of the tools."""
    from importlib.metadata import version

    tools = [f"{name} {version(name)}" for name in ("sphinx", "myst-parser", "furo")]
    found = hashlib.sha256("\n".join([polyopt.__version__, *tools]).encode())
    for package in (polyopt, formulations):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".md", ".css", ".ipynb"):
                found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def site_folder() -> Path:
    """Return the folder of this version's site, in the cache."""
    from polyopt.datasets.loading import cache_folder

    return cache_folder() / "handbook" / f"{polyopt.__version__}-{digest()}"


def kept_site(tell: Callable[[str], None] = lambda _: None) -> Path:
    """Return the folder of the site, cached or built now; `tell` is called with the steps of the build."""
    check_installed()
    folder = site_folder()
    if not (folder / MARK).is_file():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(f"the cache cannot be written, where the handbook is kept ({error}); "
                              "name another place: polyopt handbook --out FOLDER") from error  # fmt: skip
        build_site(folder, tell=tell)
        for other in folder.parent.iterdir():  # older versions; an unfinished one begins with a dot
            if other != folder and not other.name.startswith("."):
                shutil.rmtree(other, ignore_errors=True)
    return folder


def build_site(
    folder: Path, *, write: Callable[[Path], None] = write_sources, processes: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:  # fmt: skip
    """Build the site in a new folder that then replaces `folder`; return the warnings of Sphinx.

    An older site, or an empty folder, is replaced. `write` makes the pages. Up to four `processes`, by
    default one a core, read and write pages; `tell` is called with the steps of the build.
    """
    check_installed()
    check_folder(folder, None if (folder / MARK).is_file() else ", and no handbook; name another folder")
    with replacing_folder(folder) as made, tempfile.TemporaryDirectory() as work:
        tell("solving the programs that it shows")
        pages = Path(work) / "pages"
        pages.mkdir()
        write(pages)
        warned = _run(pages, made, Path(work) / "trees", processes or _cores(), tell)
        (made / MARK).write_text(f"polyopt {polyopt.__version__}\n", encoding="utf-8")
        for path in made.rglob("*.html"):
            path.write_text(finished(path.read_text(encoding="utf-8")), encoding="utf-8")
    return warned


def _cores() -> int:
    """Return the number of processes of a build: Sphinx forks, which is safe on Linux alone."""
    from joblib import cpu_count

    return min(4, cpu_count()) if sys.platform == "linux" else 1


class _ProgressStream(io.StringIO):
    """A stream that calls `tell` with Sphinx's progress, a sentence at a time, without colours."""

    def __init__(self, tell: Callable[[str], None]):
        super().__init__()
        self._tell = tell

    def write(self, text: str) -> int:
        words = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).split("... ")[0].strip()
        if words:
            self._tell(words)
        return len(text)


def _run(pages: Path, made: Path, trees: Path, processes: int, tell: Callable[[str], None]) -> list[str]:
    """Run Sphinx, and return the lines of its warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    settings = {
        **_SETTINGS, "version": polyopt.__version__, "release": polyopt.__version__,
        "html_title": f"polyopt {polyopt.__version__}",
    }  # fmt: skip
    log = io.StringIO()
    # Sphinx registers names in docutils, which a second build would warn of: they are removed.
    with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
        warnings.simplefilter("ignore")
        app = Sphinx(
            pages, None, made, trees, "html", settings, status=_ProgressStream(tell), warning=log,
            parallel=processes,
        )  # fmt: skip
        app.add_css_file("handbook.css")
        app.build()
    shutil.copy(Path(polyopt.__path__[0]) / "handbook" / "site.css", made / "_static" / "handbook.css")
    shutil.rmtree(made / "_sources", ignore_errors=True)
    for name in (".buildinfo", "objects.inv"):
        (made / name).unlink(missing_ok=True)
    return [line for line in log.getvalue().splitlines() if line.strip()]


def finished(page: str) -> str:
    """Return a page of the theme with changes for screen readers, keyboards and narrow windows.

    Captions of the contents get the level of their heading, blocks that scroll sideways get the keyboard's
    focus, the two columns beside a page get names, and no line begins with the full stop after a formula.
    """
    from polyopt.report.programs import keep_punctuation

    for before, after in _CHANGES:
        page = page.replace(before, after)
    if "<h1" not in page:  # the page of the search
        title = re.search(r"<title>([^<]*?)(?: - [^<]*)?</title>", page)
        page = page.replace(_TITLE, f"{_TITLE}<h1>{title[1] if title else 'The handbook'}</h1>", 1)
    return keep_punctuation(page)


def page_of(site: Path, name: str | None) -> Path:
    """Return the file of a page of a site by a short name, such as ``rmm``; None for the first page."""
    if name is None:
        return site / "index.html"
    pages = hand_written()
    wanted = name.strip().lower().replace("-", "_")
    if wanted not in pages:
        raise ValueError(f"the handbook has no page {visible(name)!r}; it has {', '.join(sorted(pages))}")
    return site / pages[wanted].with_suffix(".html")
