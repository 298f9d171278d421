"""A lecture is written whole or not at all; its formulas are the programs', and its notebooks run."""

import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from helpers.pages import Tags

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

```{note} left out
```

## Exercises

```{exercises} svm
```
"""


@pytest.fixture(scope="module")
def files():
    """All files of a lecture, of the chapter above."""
    return lecture_files(LECTURES["plume"], chapter=CHAPTER)


def slides(text):
    return slides_of(text, lambda name, argument: Block(f"<b>{name}:{argument}</b>", 2.0))


def lines_of(slide):
    return sum(block.lines for block in slide.blocks)


def test_lecture_has_all_files(files):
    """A lecture has slides, two notebooks, its programs and pictures that are drawn."""
    pictures = [file for file in files if file.startswith("figures/")]
    others = {"slides.html", "exercises.ipynb", "solutions.ipynb", "programs.tex"}
    assert pictures
    assert set(files) - set(pictures) == others
    for file in pictures:
        assert len(ElementTree.fromstring(files[file]).findall(".//{http://www.w3.org/2000/svg}path")) > 10
    assert sum(map(len, files.values())) < 2_000_000
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    for file in ("exercises.ipynb", "solutions.ipynb"):
        nbformat.validate(nbformat.reads(files[file], as_version=4))


def test_slides_load_nothing(files):
    """The slides run only their own script, and load nothing."""
    page = Tags(files["slides.html"])
    assert page.loads == []
    assert [found for tag, found in page.tags if tag == "script"] == [{}]
    assert "<script>alert(1)</script>" in page.text
    ids = [found["id"] for _, found in page.tags if "id" in found]
    assert len(ids) == len(set(ids))


def test_chapter_becomes_slides():
    """Sections are slides; long paragraphs are cut, and whole for the speaker."""
    found = slides(CHAPTER)
    assert [slide.title for slide in found][1:] == ["The idea", "A part", "Exercises"]
    assert found[2].section == "The idea"
    assert "<math" in found[0].title
    idea, formula, step, program = found[1].blocks
    assert "nobody sees" in idea.note
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
def test_chapter_of_lecture_becomes_slides(name):
    """Each chapter has slides that have room for their blocks, exercises, and programs that there are."""
    asked = []
    found = slides_of(chapter_of(LECTURES[name]), lambda *directive: asked.append(directive))
    assert len(found) >= 10
    assert found[0].title
    assert all(lines_of(slide) <= 16.5 for slide in found if len(slide.blocks) > 1)
    assert "exercises" in {directive for directive, _ in asked}
    assert all(find_programs(argument) for directive, argument in asked if directive == "program")


def test_text_goes_to_next_slide():
    """Paragraphs for which a slide has no room go to the next one of the same title."""
    lines = "\n\n".join(f"Paragraph {i} has words that take a line of the slide." for i in range(40))
    found = slides(f"# T\n\n## S\n\n{lines}")
    assert [slide.title for slide in found[1:]] == ["S"] * (len(found) - 1)
    assert all(lines_of(slide) <= 15.0 for slide in found)
    assert sum(block.html.count("<p>") for slide in found for block in slide.blocks) == 40
    assert [len(slide.blocks) for slide in slides("# T\n\n## S\n\nOne. Two.")] == [0, 1]


def test_undrawable_formula_is_named():
    """A formula that cannot be drawn is named."""
    with pytest.raises(ValueError, match=r"of the formula \\nonsense"):
        slides("# T\n\n$\\nonsense$")


def balanced(text):
    """True if braces, environments and dollars of a LaTeX text close, each with its own kind."""
    open_, bare = [], re.sub(r"\\[\\{}$&%#_]", "", text)
    for token in re.findall(r"\\(?:begin|end)\{\w+\*?\}|[{}]", bare):
        if token == "{" or token.startswith(r"\begin"):
            open_.append(token.removeprefix(r"\begin"))
        elif not open_ or open_.pop() != ("{" if token == "}" else token.removeprefix(r"\end")):
            return False
    return not open_ and bare.count("$") % 2 == 0 and bare.isascii()


@pytest.mark.parametrize("name", LECTURES)
def test_latex_has_every_program(name):
    """The LaTeX of a lecture has every program with its multipliers, and closes what it opens."""
    own = LECTURES[name].programs()
    text = latex_file("50 % & more_", own)
    assert r"50 \% \& more\_" in text
    assert balanced(text)
    assert text.count(r"\begin{align*}") == text.count(r"\end{align*}") == len(own) > 0
    assert text.count("&& [") == sum(row.multiplier != "–" for program in own for row in program.rows)
    assert all(program.objective_latex in text for program in own)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed")
def test_latex_compiles(tmp_path):
    """The LaTeX of all programs compiles."""
    every = [program for lecture in LECTURES.values() for program in lecture.programs()]
    (tmp_path / "all.tex").write_text(latex_file("All", every), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_notebooks_have_every_exercise(capsys):
    """Every exercise is in one lecture; its notebook says "Not yet.", that of the solutions "Right."."""
    seen = []
    for name, lecture in LECTURES.items():
        own = {key: one for key, one in exercises().items() if key.rpartition("_")[0] in lecture.chapters}
        seen += own
        for solved, word in ((False, "Not yet."), (True, "Right.")):
            cells = json.loads(exercise_notebook(lecture.title, own, solved=solved))["cells"]
            codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            assert len(codes) == len(own) > 0
            exec(compile(codes[0], name, "exec"), {})  # all are judged in tests/exercises
            assert word in capsys.readouterr().out
    assert sorted(seen) == sorted(exercises())


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "plume"])
def test_pictures_are_drawn(name):
    """Each picture has a name, a title, a caption and data in its axes."""
    assert set(MAKERS) == set(LECTURES)
    pictures = list(MAKERS[name]())
    assert len({picture.name for picture in pictures}) == len(pictures) > 0
    for picture in pictures:
        assert picture.title
        assert picture.caption
        assert all(axes.has_data() for axes in picture.figure.axes if axes.axison)


def there(place):
    return {path.relative_to(place).as_posix(): path.read_text() for path in place.rglob("*.*")}


def test_folder_is_written_whole(tmp_path):
    """A folder is written whole, and with `force` into one that has files, which stay."""
    place, files = tmp_path / "new", {"a.txt": "α", "figures/b.svg": "b"}
    write_folder(place, files)
    assert there(place) == files
    with pytest.raises(ValueError, match="is not empty; name another folder, or add --force"):
        write_folder(place, {"a.txt": "other"})
    assert there(place) == files
    (place / "mine.txt").write_text("mine")
    write_folder(place, {"a.txt": "other", "figures/c.svg": "c"}, force=True)
    assert there(place) == {**files, "a.txt": "other", "figures/c.svg": "c", "mine.txt": "mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["new"], "nothing is left beside it"


class Failing(dict):
    """Files, of which the second one cannot be made."""

    def __init__(self, fault):
        super().__init__({"a.txt": "new", "b.txt": "new"})
        self.fault = fault

    def items(self):
        yield "a.txt", "new"
        raise self.fault


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_failed_write_leaves_old_files(tmp_path, force, fault):
    """A write that fails or is stopped leaves what was there, and nothing beside it."""
    place, old = tmp_path / "lecture", {"a.txt": "old", "b.txt": "old"} if force else {}
    if old:
        write_folder(place, old)
    with pytest.raises(type(fault), match=r"^$|cannot write .*No space left"):
        write_folder(place, Failing(fault), force=force)
    assert there(place) == old if old else not place.exists()
    assert [path.name for path in tmp_path.iterdir()] == (["lecture"] if old else [])


def test_impossible_folder_is_named(tmp_path):
    """A folder that is a file, is in none, or has a folder in the place of a file is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        check_lecture_folder(tmp_path / "file", True)
    with pytest.raises(ValueError, match="does not exist"):
        check_lecture_folder(tmp_path / "no" / "where", True)
    write_folder(tmp_path / "in", {"a.d/b.txt": "1"})
    for files in ({"c.txt": "2", "a.d": "2"}, {"a.d/b.txt/c.txt": "2"}):
        with pytest.raises(OSError, match="cannot write"):
            write_folder(tmp_path / "in", files, force=True)
    assert (tmp_path / "in" / "a.d" / "b.txt").read_text() == "1"


def test_unknown_lecture_is_named():
    """A lecture or a chapter that is not there is named."""
    with pytest.raises(FileNotFoundError, match="has no chapter 'algebra'"):
        chapter_of(Lecture("algebra", "Algebra", (), ()))
    assert find_lecture(" cross-entropy").name == "cross_entropy"
    with pytest.raises(ValueError, match="there is no lecture 'rmmm'; there are optimisation, rmm"):
        find_lecture("rmmm")
