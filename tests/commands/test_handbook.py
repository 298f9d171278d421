"""The handbook as a site: whole or not there, no link broken, at home on a phone, and without a network."""

import re
import subprocess
import sys
from contextlib import chdir
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from helpers.commands import Opened, refused, run, worked

import polyopt
from polyopt.handbook import site
from polyopt.handbook.generated import MODULES, public_names

CHAPTERS = Path(polyopt.__path__[0]) / "handbook" / "chapters"
for needed in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(needed, reason="the handbook is built by Sphinx, MyST and furo")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder with the whole site, where a command with this cache looks for it."""
    folder = tmp_path_factory.mktemp("cache")
    place = folder / "polyopt" / "handbook" / site.site_folder().name
    place.parent.mkdir(parents=True)
    # In a process of its own, as users do: Sphinx sees what other tests have imported and registered.
    build = (
        f"import pathlib; from polyopt.handbook.site import build_site; print(build_site(pathlib.{place!r}))"
    )
    built = subprocess.run([sys.executable, "-c", build], capture_output=True, text=True)
    assert built.stdout.splitlines()[-1:] == ["[]"], built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def folder(cache):
    return cache / "polyopt" / "handbook" / site.site_folder().name


def little(pages):
    """Write the sources of a little site."""
    listed = [f"page{i}" for i in range(8)]
    for name in listed:
        (pages / f"{name}.md").write_text(f"# {name}\n\nA formula, $x^2$.\n")
    tree = "\n".join(listed)
    (pages / "index.md").write_text(f"# A site\n\n```{{toctree}}\n{tree}\n```\n")


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        self.loads |= {found[key] for key in ("src", "srcset") if found.get(key)}
        if tag == "link" and found.get("rel") != "canonical":
            self.loads.add(found["href"])


def broken(folder):
    """Links within the site that lead nowhere, and what a page loads that is not in the site."""
    files = {path for path in folder.rglob("*") if path.is_file()}
    pages = {path: Page(path) for path in files if path.suffix == ".html"}
    found = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            parts = urlsplit(link)
            if parts.scheme and link in page.links:
                continue  # to the world, for those who follow it
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = not parts.scheme and not parts.netloc and target in files
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].anchors
            found += [] if there else [f"{path.relative_to(folder)}: {link}"]
    return found


def test_no_link_is_broken(folder):
    """Every link within the site leads to a page and a place in it, and nothing else is loaded."""
    assert broken(folder) == []


def test_pages_by_hand_are_whole(folder):
    """Every page by hand is there, with its formulas, programs, exercises and code."""
    for name in site.hand_written():
        assert site.page_of(folder, name).is_file(), name
    for path in CHAPTERS.glob("*.md"):
        text, html = path.read_text(encoding="utf-8"), site.page_of(folder, path.stem).read_text("utf-8")
        code = len(re.findall(r"^```(?:python|output)$", text, re.M))
        assert html.count("class='program'") == len(re.findall(r"^```{program}", text, re.M))
        assert ("class='exercise'" in html) == ("```{exercises}" in text)
        assert html.count("highlight-python notranslate") + html.count("highlight-output notranslate") == code
        assert ("<math" in html) == ("$" in text or "```{program}" in text)
        assert "$$" not in html


def test_pages_are_finished(folder):
    """A page has one title, places for the keyboard's focus, and no line that begins with a full stop."""
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert text.count("<h1") == 1, path
        assert 'role="heading">' not in text, path
        assert "<pre>" not in text, path
        assert not re.search(r"<aside class=\"[a-z-]+\">", text), path
        assert not re.search(r"</math>[.,;:)]", re.sub(r"</math>[.,;:)!?]+</span>", "", text)), path
        assert not re.search(r"<div class='scroll'>", text), path


def test_programs_are_demonstrated(folder):
    """The reference has a page for each name; the page of a family has its solved programs."""
    assert {path.stem for path in (folder / "api").iterdir()} == {"index", *public_names(), *MODULES}
    _, heading, text = (folder / "programs" / "svm.html").read_text("utf-8").partition("Demonstration<")
    assert heading
    assert "gap" in text
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert (folder / "results.html").is_file() == ('href="results.html"' in index)


def test_reference_has_imported_names():
    """Every name that a page imports has its entry in the reference."""
    told, modules = set(public_names()), set(MODULES)
    pages = [path for path in CHAPTERS.parent.rglob("*") if path.suffix in (".md", ".ipynb")]
    for path in pages:
        for module, names in re.findall(r"from (polyopt[.\w]*) import ([\w, ]*\w)", path.read_text("utf-8")):
            known = told | {"datasets", "plots"} if module == "polyopt" else set(names.split(", "))
            assert set(names.split(", ")) <= known, (path.name, module, names)
            parents = {module.rsplit(".", n)[0] for n in range(module.count(".") + 1)} - {"polyopt"}
            assert module == "polyopt" or parents & modules, (path.name, module)


def test_kept_site_is_opened(cache, folder):
    """The command opens a page of the site that is kept."""
    done = run("handbook", "rmm", width=400, XDG_CACHE_HOME=str(cache))
    page = folder / "handbook" / "chapters" / "rmm.html"
    assert (done.exit_code, done.stdout.strip()) == (0, str(page))
    assert Opened.links[-1] == page.as_uri()


def test_stopped_build_leaves_old_site(tmp_path):
    """Ctrl-C or a full disk during a build leaves the site that was there, and nothing beside it."""
    place = tmp_path / "site"
    place.mkdir()
    (place / site.MARK).write_text("the old one", encoding="utf-8")
    for error in (KeyboardInterrupt(), OSError(28, "No space left on device")):

        def stop(pages, error=error):
            raise error

        with pytest.raises(type(error), match=r"|cannot write .*site': No space"):
            site.build_site(place, write=stop)
        assert [path.name for path in tmp_path.iterdir()] == ["site"]
        assert (place / site.MARK).read_text(encoding="utf-8") == "the old one"


def test_odd_places_are_refused(tmp_path):
    """A site does not replace other files, a file, or the folder that one is in."""
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="is not empty, and no handbook"):
        site.build_site(tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        site.build_site(tmp_path / "file")
    with pytest.raises(ValueError, match="does not exist"):
        site.build_site(tmp_path / "no" / "site")
    (tmp_path / "here").mkdir()
    with chdir(tmp_path / "here"), pytest.raises(ValueError, match="the folder that you are in"):
        site.build_site(Path("."))
    assert "is not empty, and no handbook" in refused("handbook", "--out", tmp_path)
    assert "certificates" in refused("handbook", "rmn"), "the pages that there are"


def test_processes_build_same_site(tmp_path):
    """Several processes build the pages that one builds, through a link too, and tell their steps."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    said = []
    assert site.build_site(tmp_path / "link", write=little, processes=2, tell=said.append) == []
    assert site.build_site(tmp_path / "ü 🙂", write=little, processes=1) == []
    assert (tmp_path / "link").is_symlink()
    pages = list((tmp_path / "real").rglob("*.html"))
    assert len(pages) >= 9
    for path in pages:
        other = tmp_path / "ü 🙂" / path.relative_to(tmp_path / "real")
        assert other.read_bytes() == path.read_bytes(), path
    assert {"solving the programs that it shows", "reading sources", "writing output"} <= set(said)
    assert not any("\x1b" in words for words in said)


def test_site_is_built_once(tmp_path, monkeypatch):
    """The command builds the site of this version at its first use, and removes those of older ones."""
    monkeypatch.setattr(site, "build_site", partial(site.build_site, write=little))
    older = tmp_path / "polyopt" / "handbook" / "0.0.1-x"
    older.mkdir(parents=True)
    first, second = (run("handbook", width=400, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2))
    assert first.exit_code == second.exit_code == 0
    assert ("building the handbook" in first.stderr, "building" in second.stderr) == (True, False)
    assert first.stdout == second.stdout == f"{older.parent / site.site_folder().name / 'index.html'}\n"
    assert not older.exists()
    out = tmp_path / "site"
    assert worked("handbook", "--out", out, width=400).strip() == str(out / "index.html")
    assert (out / "index.html").is_file()


# Elements that reach out of the page, but for what stands in a box that scrolls, or beside the page.
SPILLS = """[...document.querySelectorAll('article *')].filter(each =>
    !each.closest('.scroll, .table-wrapper, pre, .highlight, math')
    && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"""


def test_pages_fit_phone(browser, folder):
    """At 390 px nothing leaves the page, nothing is loaded from elsewhere, and nothing is complained of."""
    pages = [*folder.rglob("handbook/chapters/*.html"), *folder.glob("*.html")]
    for part in ("api", "programs", "results/pages", "handbook/notebooks"):  # the largest of each
        pages += sorted((folder / part).glob("*.html"), key=lambda path: -path.stat().st_size)[:6]
    for page in pages:
        browser.open(page, width=390)
        fits = "document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth"
        assert browser.value(fits), page
        assert browser.value(SPILLS) == [], page
        elsewhere = [url for url in browser.requests() if not url.startswith(("data:", folder.as_uri()))]
        assert elsewhere == [], page
        assert browser.complaints() == [], page


def test_search_works_in_files(browser, folder):
    """The search of a site without a server finds a chapter by a word in it."""
    browser.open(folder / "search.html")
    browser.ask("Page.navigate", url=f"{(folder / 'search.html').as_uri()}?q=whitening")
    wanted = "Relative Margin Machines and the Sigma-SVM"
    found = f"""new Promise(done => {{ let left = 600; const look = () => {{  // they come one after the other
        const links = [...document.querySelectorAll('#search-results li a')].map(each => each.textContent);
        links.includes('{wanted}') || !left-- ? done(links) : setTimeout(look, 50); }}; look(); }})"""
    assert wanted in browser.value(found)
