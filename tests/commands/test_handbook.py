"""The handbook as a site: whole or not there, no link broken, at home on a phone, and without a network."""

from __future__ import annotations

import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

import polyopt
from polyopt.cli import app
from polyopt.handbook import site
from polyopt.handbook.generated import MODULES, public_names
from polyopt.handbook.site import hand_written, write_sources

FEW = partial(write_sources, families=("rmm",), names=("SVM", "certify_svm"), results=False)
CHAPTERS = Path(polyopt.__path__[0]) / "handbook" / "chapters"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for needed in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(needed, reason="the handbook is built by Sphinx, MyST and furo")
    place = tmp_path_factory.mktemp("site") / "handbook"
    assert site.build_site(place, write=FEW) == []
    return place


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        self.loads += [found[key] for key in ("src", "srcset") if found.get(key)]
        if tag == "link" and found.get("rel") != "canonical":
            self.loads.append(found["href"])


def broken(folder):
    """Links within the site that lead nowhere, and what a page loads that is not in the site."""
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme and link in page.links:
                continue  # to the world, for those who follow it
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = not parts.scheme and not parts.netloc and target.is_file()
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].anchors
            found += [] if there else [f"{path.relative_to(folder)}: {link}"]
    return found


def test_no_link_is_broken_and_nothing_is_loaded_from_elsewhere(folder):
    assert broken(folder) == []


def test_every_page_by_hand_is_there_with_its_formulas_programs_and_exercises(folder):
    for name in hand_written():
        assert site.page_of(folder, name).is_file(), name
    for path in CHAPTERS.glob("*.md"):
        text, html = path.read_text(encoding="utf-8"), site.page_of(folder, path.stem).read_text("utf-8")
        code = len(re.findall(r"^```(?:python|output)$", text, re.M))
        assert html.count("class='program'") == len(re.findall(r"^```{program}", text, re.M))
        assert ("class='exercise'" in html) == ("```{exercises}" in text)
        assert html.count("highlight-python notranslate") + html.count("highlight-output notranslate") == code
        assert ("<math" in html) == ("$" in text or "```{program}" in text)
        assert "$$" not in html


def test_a_build_that_is_stopped_leaves_what_was_there(folder, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    place = tmp_path / "site"
    place.mkdir()
    (place / site.MARK).write_text("the old one", encoding="utf-8")
    monkeypatch.setattr(site, "_run", stop)
    with pytest.raises(KeyboardInterrupt):
        site.build_site(place, write=FEW)
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (place / site.MARK).read_text(encoding="utf-8") == "the old one"


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    pytest.importorskip("sphinx")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="is not empty, and no handbook"):
        site.build_site(tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        site.build_site(tmp_path / "file")
    with pytest.raises(ValueError, match="does not exist"):
        site.build_site(tmp_path / "no" / "site")


def test_odd_places_are_refused_in_a_sentence_or_kept_as_they_are(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "_run", lambda *_: [])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="the folder that you are in"):
        site.build_site(Path("."), write=FEW)
    with monkeypatch.context() as full:
        full.setattr(site, "_run", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match=r"cannot write .*site': No space"):
            site.build_site(tmp_path / "site", write=FEW)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    site.build_site(tmp_path / "link", write=FEW)
    site.build_site(tmp_path / "ü 🙂", write=FEW)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / site.MARK).is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real", "ü 🙂"]


def test_a_page_is_finished_for_screen_readers_keys_and_lines(folder):
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert text.count("<h1") == 1, path
        assert 'role="heading">' not in text, path
        assert "<pre>" not in text, path
        assert not re.search(r"<aside class=\"[a-z-]+\">", text), path
        assert not re.search(r"</math>[.,;:)]", re.sub(r"</math>[.,;:)!?]+</span>", "", text)), path
        assert not re.search(r"<div class='scroll'>", text), path


def test_the_reference_has_every_name_that_the_pages_import():
    told, modules = set(public_names()), set(MODULES)
    pages = [path for path in CHAPTERS.parent.rglob("*") if path.suffix in (".md", ".ipynb")]
    for path in pages:
        for module, names in re.findall(r"from (polyopt[.\w]*) import ([\w, ]*\w)", path.read_text("utf-8")):
            known = told | {"datasets", "plots"} if module == "polyopt" else set(names.split(", "))
            assert set(names.split(", ")) <= known, (path.name, module, names)
            parents = {module.rsplit(".", n)[0] for n in range(module.count(".") + 1)} - {"polyopt"}
            assert module == "polyopt" or parents & modules, (path.name, module)


def test_the_sources_have_demonstrations_the_reference_and_the_kept_results(tmp_path):
    write_sources(tmp_path, families=("svm",))
    assert {path.stem for path in (tmp_path / "api").iterdir()} == {"index", *public_names(), *MODULES}
    assert f"automodule:: {MODULES[0]}" in (tmp_path / "api" / f"{MODULES[0]}.md").read_text()
    page = (tmp_path / "programs" / "svm.md").read_text(encoding="utf-8")
    assert "## Demonstration" in page
    assert "gap" in page.partition("## Demonstration")[2]
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert (tmp_path / "results.md").is_file() == ("\nresults\n" in index)


def test_the_site_is_built_once_and_older_ones_go(tmp_path, monkeypatch):
    pytest.importorskip("sphinx")
    built = []

    def build(folder, tell):
        built.append(folder)
        folder.mkdir()
        (folder / site.MARK).touch()

    older = tmp_path / "0.0.1-x"
    older.mkdir()
    monkeypatch.setattr(site, "site_folder", lambda: tmp_path / "now")
    monkeypatch.setattr(site, "build_site", build)
    assert site.kept_site() == site.kept_site() == tmp_path / "now"
    assert built == [tmp_path / "now"]
    assert not older.exists()


def test_several_processes_build_the_same_site_and_say_what_they_are_at(folder, tmp_path):
    said = []
    assert site.build_site(tmp_path / "site", processes=2, tell=said.append, write=FEW) == []
    for path in folder.rglob("*.html"):
        assert (tmp_path / "site" / path.relative_to(folder)).read_bytes() == path.read_bytes(), path
    index = "searchindex.js"
    assert sorted((tmp_path / "site" / index).read_text("utf-8")) == sorted(
        (folder / index).read_text("utf-8")
    )
    assert {"solving the programs that it shows", "reading sources", "writing output"} <= set(said)
    assert not any("\x1b" in words for words in said)


def test_without_sphinx_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr(site, "find_spec", lambda name: None if name == "furo" else True)
    ran = CliRunner().invoke(app, ["handbook"])
    assert ran.exit_code == 2
    assert "pip install 'polyopt[handbook]'" in ran.output


def test_a_page_that_is_not_there_is_told_with_those_that_are():
    pytest.importorskip("sphinx")
    ran = CliRunner().invoke(app, ["handbook", "rmn"])
    assert ran.exit_code == 2
    assert "certificates" in ran.output


# -- in a browser --------------------------------------------------------------------------------------

# Elements that reach out of the page, but for what stands in a box that scrolls, or beside the page.
SPILLS = """[...document.querySelectorAll('article *')].filter(each =>
    !each.closest('.scroll, .table-wrapper, pre, .highlight, math')
    && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"""


def check_pages(browser, folder, pages):
    for page in pages:
        browser.open(page, width=390)
        fits = "document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth"
        assert browser.value(fits), page
        assert browser.value(SPILLS) == [], page
        elsewhere = [url for url in browser.requests() if not url.startswith(("data:", folder.as_uri()))]
        assert elsewhere == [], page
        assert browser.complaints() == [], page


def test_the_pages_fit_a_phone_and_load_nothing_from_elsewhere(browser, folder):
    check_pages(browser, folder, [*folder.rglob("handbook/chapters/*.html"), *folder.glob("*.html")])


def test_the_search_works_in_a_file(browser, folder):
    browser.open(folder / "search.html")
    browser.ask("Page.navigate", url=f"{(folder / 'search.html').as_uri()}?q=whitening")
    wanted = "Relative Margin Machines and the Sigma-SVM"
    found = f"""new Promise(done => {{ let left = 600; const look = () => {{  // they come one after the other
        const links = [...document.querySelectorAll('#search-results li a')].map(each => each.textContent);
        links.includes('{wanted}') || !left-- ? done(links) : setTimeout(look, 50); }}; look(); }})"""
    assert wanted in browser.value(found)


@pytest.mark.slow
def test_the_whole_site_is_whole(browser, tmp_path):
    pytest.importorskip("sphinx")
    assert site.build_site(tmp_path / "site") == []
    assert broken(tmp_path / "site") == []
    check_pages(browser, tmp_path / "site", sorted((tmp_path / "site").rglob("*.html")))
