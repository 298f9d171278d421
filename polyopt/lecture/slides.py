"""The slides of a lecture: one file that needs no network, for keys, fingers, phones and paper."""

from __future__ import annotations

import re
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from formulations.symbols import symbols_of
from formulations.typeset import conditions_of
from polyopt.compare.programs import find_programs
from polyopt.lecture.chapter import Block, slides_of
from polyopt.report import frame
from polyopt.report.mathml import held
from polyopt.report.pictures import svg
from polyopt.report.programs import program_section
from polyopt.text import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polyopt.exercises.exercise import Exercise
    from polyopt.lecture.chapter import Slide
    from polyopt.lecture.figures import Picture

__all__ = ["slide_page"]

_KEYS = "<p class='quiet keys'>→ next, ← back, n notes, f full screen</p>"


def slide_page(chapter: str, pictures: Sequence[Picture], exercises: Mapping[str, Exercise]) -> str:
    """The slides of a chapter as one page.

    chapter: the chapter, in Markdown.
    pictures: shown after the first section, a slide each.
    exercises: listed where the chapter has its exercises.
    """

    def special(name: str, argument: str) -> Block | None:
        if name == "program":
            [program] = find_programs(argument)
            rows = sum(1.1 + len(row.meaning) // 90 for row in program.rows)
            told = len(symbols_of(program)) + len(conditions_of(program))
            return Block(program_section(program), 4.4 + rows + 0.75 * told)
        if name == "exercises":
            items = "".join(
                f"<li><code>{escape(key)}</code> {escape(one.title)}</li>" for key, one in exercises.items()
            )
            how = "<p>In the notebook <code>exercises.ipynb</code>; each judges its answer.</p>"
            return Block(f"{how}<ul>{items}</ul>", 1.5 + len(exercises))
        return None

    slides = slides_of(chapter, special)
    parts = [_section(slide, "title" if place == 0 else "") for place, slide in enumerate(slides)]
    second = [place for place, slide in enumerate(slides) if place > 1 and slide.title != slides[1].title]
    at = second[0] if second else len(parts)
    parts[at:at] = [_picture(picture) for picture in pictures]
    return frame.page(
        re.sub(r"<[^>]*>", "", slides[0].title),
        Template(_part("slides.html")).substitute(slides=held("\n".join(parts))).rstrip(),
        style=frame.part("style.css") + _part("slides.css"), script=_part("slides.js"),
    )  # fmt: skip


def _part(name: str) -> str:
    return resources.files("polyopt.lecture").joinpath(name).read_text(encoding="utf-8")


def _section(slide: Slide, kind: str) -> str:
    level = "h1" if kind == "title" else "h2"
    above = f"<p class='quiet'>{slide.section}</p>" if slide.section else ""
    notes = "".join(block.note for block in slide.blocks)
    aside = f"<aside class='notes'>{notes}</aside>" if notes else ""
    shown = "".join(block.html for block in slide.blocks) + (_KEYS if kind else "")
    return (
        f"<section class='slide {kind}'><header>{above}<{level}>{slide.title}</{level}></header>"
        f"<div class='body'>{shown}</div>{aside}</section>"
    )


def _picture(picture: Picture) -> str:
    image = svg(picture.figure, picture.title, as_wide=True)
    return (
        f"<section class='slide picture'><header><h2>{escape(picture.title)}</h2></header><div class='body'>"
        f"<figure>{image}<figcaption>{escape(picture.caption)}</figcaption>"
        "</figure></div></section>"
    )
