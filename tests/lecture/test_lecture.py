"""A lecture is written whole or not at all; its formulas are the programs', and its notebooks run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from polyopt.exercises import exercises
from polyopt.lecture import LECTURES, Lecture, check_lecture_folder, find_lecture, lecture_files, write_folder
from polyopt.lecture.figures import MAKERS
from polyopt.lecture.handouts import exercise_notebook, latex_file
from polyopt.lecture.lectures import chapter_of
from polyopt.lecture.slides import Block, slides_of
from polyopt.methods.programs import find_programs

pytest.importorskip("mdit_py_plugins", reason="what reads the chapters is not installed")

CHAPTER = r"""# A chapter of $\alpha$

Somebody (2001). In *words*.

## The idea

A first sentence with $x_i \leq 1.5$ in it, and e.g. (see Sect. 2) more. A second one that nobody sees on the
slide, for it is long, and says again what was said. A third one leads on, and is seen,
since a formula follows:

$$\min_w \tfrac12 \lVert w \rVert^2$$

**1. The step.** What is done <script>alert(1)</script>. It is said in many more words than are
shown on the slide, which go on and on. They end here.

```{program} svm.primal
```

### A part

| where | printed | so it is |
|---|---|---|
| (1) | `a` | $b$ |

```python
print("hello")  # <b>
```

```output
hello
```

```sh
polyopt lecture rmm
```

```{note} left out
```

## Exercises

```{exercises} svm
```
"""


class Reader(HTMLParser):
    """The tags of a page, all closed, and its words."""

    VOID = ("meta", "br", "img", "link", "input", "hr")

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


WHOLE = ("plume",)  # of the others each part is looked at for itself


@pytest.fixture(scope="module")
def lectures():
    """All files of some lectures, of a chapter that is the same for all."""
    return {name: lecture_files(LECTURES[name], chapter=CHAPTER) for name in WHOLE}


@pytest.fixture(scope="module")
def programs():
    """The programs of each lecture."""
    found = {name: one.programs() for name, one in LECTURES.items()}
    assert {"cpm.face", "cpm_hard.total_dual", "cpm_worst.fixed_assignment_sum"} <= {
        p.name for p in found["cpm"]
    }
    return found


def exercises_of(name):
    return {key: one for key, one in exercises().items() if key.rpartition("_")[0] in LECTURES[name].chapters}


def slides(text):
    return slides_of(text, lambda name, argument: Block(f"<b>{name}:{argument}</b>", 2.0))


def test_each_lecture_has_all_its_files(lectures):
    for name, files in lectures.items():
        pictures = [file for file in files if file.startswith("figures/")]
        assert pictures, name
        assert set(files) - set(pictures) == {
            "slides.html",
            "exercises.ipynb",
            "solutions.ipynb",
            "programs.tex",
        }
        for file in pictures:
            root = ElementTree.fromstring(files[file])
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 10
        assert sum(map(len, files.values())) < 2_000_000, name


def test_the_slides_load_nothing_and_run_only_their_script(lectures):
    for files in lectures.values():
        reader = Reader(files["slides.html"])
        assert not {"link", "iframe", "object", "base"} & {tag for tag, _ in reader.tags}
        assert [attributes for tag, attributes in reader.tags if tag == "script"] == [{}]
        assert "<script>alert(1)</script>" in reader.text
        for _, attributes in reader.tags:
            for key in ("src", "href", "xlink:href"):
                assert attributes.get(key, "#").startswith(("#", "data:"))
        ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
        assert len(ids) == len(set(ids))


def lines_of(slide):
    return sum(block.lines for block in slide.blocks)


def test_a_chapter_becomes_slides():
    found = slides(CHAPTER)
    assert [slide.title for slide in found][1:] == ["The idea", "A part", "Exercises"]
    assert found[2].section == "The idea"
    assert "<math" in found[0].title
    idea, formula, step, program = found[1].blocks
    assert "nobody sees" in idea.note, "the full paragraph is for the speaker"
    assert "nobody sees" not in idea.html
    assert "A third one leads on" in idea.html
    assert "<math display='block'" in formula.html
    assert step.html.startswith("<p><strong>1. The step.</strong> What is done &lt;script&gt;")
    assert program.html == "<b>program:svm.primal</b>"
    text = "".join(block.html for block in found[2].blocks)
    assert text.count("<tr>") == 2
    assert '<span class="nb">print</span>' in text
    assert "<pre class='output' tabindex='0'><code>hello\n" in text
    assert "<b>note:left out</b>" in text


@pytest.mark.parametrize("name", LECTURES)
def test_the_chapter_of_each_lecture_becomes_slides(name):
    asked = []
    found = slides_of(chapter_of(LECTURES[name]), lambda *directive: asked.append(directive))
    assert len(found) >= 10
    assert found[0].title
    assert all(lines_of(slide) <= 16.5 for slide in found if len(slide.blocks) > 1)
    assert "exercises" in {directive for directive, _ in asked}
    for directive, argument in asked:
        assert directive != "program" or find_programs(argument)


def test_what_has_no_room_goes_to_the_next_slide():
    lines = "\n\n".join(f"Paragraph {i} has words that take a line of the slide." for i in range(40))
    found = slides(f"# T\n\n## S\n\n{lines}")
    assert [slide.title for slide in found[1:]] == ["S"] * (len(found) - 1)
    assert all(lines_of(slide) <= 15.0 for slide in found)
    text = "".join(block.html for slide in found for block in slide.blocks)
    assert text.count("<p>") == 40
    assert [len(slide.blocks) for slide in slides("# T\n\n## S\n\nOne. Two.")] == [0, 1]


def test_a_formula_that_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match=r"of the formula \\nonsense"):
        slides("# T\n\n$\\nonsense$")


def balanced(text):
    """Whether braces, environments and dollars of a LaTeX text close, each with its own kind."""
    open_, bare = [], re.sub(r"\\[\\{}$&%#_]", "", text)
    for token in re.findall(r"\\(?:begin|end)\{\w+\*?\}|[{}]", bare):
        if token == "{" or token.startswith(r"\begin"):
            open_.append(token.removeprefix(r"\begin"))
        elif not open_ or open_.pop() != ("{" if token == "}" else token.removeprefix(r"\end")):
            return False
    return not open_ and bare.count("$") % 2 == 0 and bare.isascii()


def test_the_latex_has_every_program_and_closes_what_it_opens(programs):
    for name, own in programs.items():
        text = latex_file(LECTURES[name].title, own)
        assert balanced(text), name
        assert text.count(r"\begin{align*}") == text.count(r"\end{align*}") == len(own) > 0
        assert text.count("&& [") == sum(row.multiplier != "–" for p in own for row in p.rows)
        assert all(program.objective_latex in text for program in own)
    assert r"50 \% \& more\_" in latex_file("50 % & more_", [])
    for broken in ("{a", "a}", r"\begin{a}", r"\begin{a}{\end{a}}", "$a", "é"):
        assert not balanced(broken)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed")
def test_the_latex_compiles(tmp_path, programs):
    every = [program for own in programs.values() for program in own]
    (tmp_path / "all.tex").write_text(latex_file("All", every), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_notebooks_have_every_exercise_and_their_solutions_are_right(capsys):
    seen = []
    for name, lecture in LECTURES.items():
        own = exercises_of(name)
        seen += own
        for solved, word in ((False, "Not yet."), (True, "Right.")):
            found = codes(exercise_notebook(lecture.title, own, solved=solved))
            assert len(found) == len(own) > 0
            for code in found if name in WHOLE else found[:1]:  # all are judged in tests/exercises
                exec(compile(code, name, "exec"), {})
                assert word in capsys.readouterr().out
    assert sorted(seen) == sorted(exercises())


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in WHOLE])
def test_the_pictures_are_drawn(name):
    assert set(MAKERS) == set(LECTURES)
    pictures = list(MAKERS[name]())
    assert len({picture.name for picture in pictures}) == len(pictures) > 0
    for picture in pictures:
        assert picture.title
        assert picture.caption
        assert all(axes.has_data() for axes in picture.figure.axes if axes.axison)


def codes(text):
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def test_the_notebooks_are_what_jupyter_reads(lectures):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    for files in lectures.values():
        for file in ("exercises.ipynb", "solutions.ipynb"):
            nbformat.validate(nbformat.reads(files[file], as_version=4))


# -- the folder ---------------------------------------------------------------------------------------


def there(place):
    return {
        path.relative_to(place).as_posix(): path.read_text() for path in place.rglob("*") if path.is_file()
    }


def test_a_folder_is_written_whole(tmp_path):
    files = {"a.txt": "α", "figures/b.svg": "b"}
    for name in ("new", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        write_folder(tmp_path / name, files)
        assert there(tmp_path / name) == files
    with pytest.raises(ValueError, match="is not empty; name another folder, or add --force"):
        write_folder(tmp_path / "new", {"a.txt": "other"})
    assert there(tmp_path / "new") == files
    (tmp_path / "new" / "mine.txt").write_text("mine")
    write_folder(tmp_path / "new", {"a.txt": "other", "figures/c.svg": "c"}, force=True)
    assert there(tmp_path / "new") == {
        "a.txt": "other", "figures/b.svg": "b", "figures/c.svg": "c", "mine.txt": "mine"
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"], "nothing is left beside them"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, force, fault):
    place, old = tmp_path / "lecture", {"a.txt": "old", "b.txt": "old"} if force else {}
    if old:
        write_folder(place, old)
    write, calls = Path.write_text, []

    def full(self, text, **how):
        calls.append(self)
        if len(calls) == 2:
            raise fault
        return write(self, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(type(fault)) as caught:
        write_folder(place, {"a.txt": "new", "b.txt": "new"}, force=force)
    monkeypatch.undo()
    if isinstance(fault, OSError):
        assert "cannot write" in str(caught.value)
        assert "No space left" in str(caught.value)
    assert there(place) == old if old else not place.exists()
    assert [path.name for path in tmp_path.iterdir()] == (["lecture"] if old else [])


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        check_lecture_folder(tmp_path / "file", True)
    with pytest.raises(ValueError, match="does not exist"):
        check_lecture_folder(tmp_path / "no" / "where", True)
    write_folder(tmp_path / "in", {"a/b": "1"})
    with pytest.raises(OSError, match="cannot write"):
        write_folder(tmp_path / "in", {"c": "2", "a": "2"}, force=True)
    with pytest.raises(OSError, match="cannot write"):
        write_folder(tmp_path / "in", {"a/b/c": "2"}, force=True)
    assert there(tmp_path / "in") == {"a/b": "1"}


def test_a_lecture_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match="has no chapter 'algebra'"):
        chapter_of(Lecture("algebra", "Algebra", (), ()))
    assert find_lecture(" cross-entropy").name == "cross_entropy"
    with pytest.raises(ValueError, match="there is no lecture 'rmmm'; there are optimisation, rmm"):
        find_lecture("rmmm")
