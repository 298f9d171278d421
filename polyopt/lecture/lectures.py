"""The lectures, the files of a lecture, and writing them into a folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from formulations.language.program import Program
from polyopt.base.files import check_folder, replacing_folder
from polyopt.exercises import exercises
from polyopt.lecture.figures import MAKERS
from polyopt.lecture.handouts import exercise_notebook, latex_file
from polyopt.lecture.slides import slide_page
from polyopt.methods.programs import programs_of
from polyopt.methods.registry import families
from polyopt.plots.figure import svg_file


@dataclass(frozen=True)
class Lecture:
    """A lecture."""

    name: str  #: its name on the command line, and of its chapter in ``polyopt/handbook/chapters``
    title: str  #: its heading
    chapters: tuple[str, ...]  #: its chapters of :mod:`polyopt.exercises`
    families: tuple[str, ...]  #: its families of programs; each name stands for all that begin with it

    def programs(self) -> list[Program]:
        """Return the programs of the families, in the order in which they are named here."""
        return [
            program for stem in self.families for name in families()
            if name == stem or name.startswith(f"{stem}_") for program in programs_of(name).values()
        ]  # fmt: skip


LECTURES = {
    one.name: one
    for one in (
        Lecture("optimisation", "Optimisation for classifiers", ("svm", "certificate"), ("svm",)),
        Lecture("rmm", "Relative Margin Machines and the Sigma-SVM", ("rmm",),
                ("rmm", "sigma_svm", "soft_rmm")),
        Lecture("cpm", "The Convex Polytope Machine", ("cpm",), ("cpm",)),
        Lecture(
            "polyceptron", "The Polyceptron, SPLA1 and PC-SLP", ("polyceptron",),
            ("polyceptron", "spla1", "pc_slp"),
        ),
        Lecture("cross_entropy", "Few support vectors", ("l0",), ("l0", "one_norm")),
        Lecture("plume", "PLUME", ("plume",), ("plume",)),
    )
}  # fmt: skip
"""The lectures by name."""


def find_lecture(name: str) -> Lecture:
    """Return the lecture of a name in which a hyphen may stand for an underscore."""
    found = LECTURES.get(name.strip().replace("-", "_"))
    if found is None:
        raise ValueError(f"there is no lecture {name!r}; there are {', '.join(LECTURES)}")
    return found


def chapter_of(lecture: Lecture) -> str:
    """Read the chapter of the handbook that a lecture is made from, in Markdown."""
    place = resources.files("polyopt") / "handbook" / "chapters" / f"{lecture.name}.md"
    if not place.is_file():
        raise FileNotFoundError(f"the handbook of this installation has no chapter {lecture.name!r}")
    return place.read_text(encoding="utf-8")


def lecture_files(
    lecture: Lecture, *, chapter: str | None = None, on_step: Callable[[str], None] | None = None
) -> dict[str, str]:
    """Return the texts of a lecture's files by their names.

    `chapter` is Markdown, by default the handbook's; `on_step` is called with a few words before each part.
    """
    step = on_step or (lambda words: None)
    text = chapter_of(lecture) if chapter is None else chapter
    own = {name: one for name, one in exercises().items() if name.rpartition("_")[0] in lecture.chapters}
    step("the pictures")
    pictures = list(MAKERS[lecture.name]())
    files = {f"figures/{picture.name}.svg": svg_file(picture.figure) for picture in pictures}
    step("the slides")
    files["slides.html"] = slide_page(text, pictures, own)
    step("the notebooks")
    files["exercises.ipynb"] = exercise_notebook(lecture.title, own, solved=False)
    files["solutions.ipynb"] = exercise_notebook(lecture.title, own, solved=True)
    step("the programs")
    files["programs.tex"] = latex_file(lecture.title, lecture.programs())
    return dict(sorted(files.items()))


def write_folder(folder: str | Path, files: Mapping[str, str], *, force: bool = False) -> None:
    """Write texts by their names into a folder, or leave it as it was.

    In a folder with files, `force` replaces those of the same names. A slash in a name is a folder in the
    folder.
    """
    check_lecture_folder(folder, force)
    with replacing_folder(folder, copies_old=True) as made:
        for name, text in files.items():
            target = made / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def check_lecture_folder(folder: str | Path, force: bool) -> None:
    """Refuse a folder before the work for it begins: with `force`, files in it may be replaced."""
    check_folder(folder, None if force else "; name another folder, or add --force")
