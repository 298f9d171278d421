"""The slides of a lecture as one file without network access, for keyboards, phones and paper.

:func:`slides_of` cuts a chapter of the handbook into slides, a slide for each heading. A long paragraph is
shown by its first sentence, and in full in the speaker's notes; formulas, programs, tables, lists and code
are shown as they are. A full slide is continued on another one with the same heading; the page's script makes
the letters of a slide smaller if its content is too high. :func:`slide_page` makes the page.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from formulations.language.typeset import domains_latex, printed_symbols
from polyopt.base.text import escape
from polyopt.exercises.exercise import Exercise
from polyopt.lecture.figures import Picture
from polyopt.methods.programs import find_programs
from polyopt.plots.figure import svg
from polyopt.report import frame
from polyopt.report.programs import keep_punctuation, mathml, program_section

_MAX_LINES = 15.0  # lines of text on a slide; the letters of a fuller slide would be too small
_LINE_LETTERS = 74  # letters on a line of text
_CODE_LINE, _FORMULA_LINE, _TABLE_ROW = 0.6, 1.5, 1.15  # heights, in lines of text
_KEYS = "<p class='quiet keys'>→ next, ← back, n notes, f full screen</p>"
_MISSING = "slides are made by markdown-it-py and mdit-py-plugins: pip install polyopt[lecture]"


@dataclass(frozen=True)
class Block:
    """A part of a slide as HTML, its height in lines of text, and the full text as a note if it is cut."""

    html: str
    lines: float
    note: str = ""


@dataclass(frozen=True)
class Slide:
    """A heading as HTML, the heading of its section (empty for the section's own slide), and the blocks."""

    title: str
    section: str = ""
    blocks: list[Block] = field(default_factory=list)


def slides_of(text: str, special: Callable[[str, str], Block | None]) -> list[Slide]:
    """Cut a chapter into slides, the first with its title.

    `special` makes a block, or None, of a directive and its argument, as of ``{program} rmm.qp``.
    """
    reader = _reader()
    slides = [Slide("")]
    tree = SyntaxTreeNode(reader.parse(text))
    for tokens in _with_outputs(node.to_tokens() for node in tree.children):
        first = tokens[0]
        if first.type == "heading_open":
            title = reader.renderer.render(tokens[1:-1], reader.options, {})
            level = int(first.tag[1])
            if level == 1:
                slides[0] = replace(slides[0], title=title)
            else:
                own = slides[-1].section or slides[-1].title if level > 2 else ""
                slides.append(Slide(title, own if len(slides) > 1 else ""))
            continue
        block = _block(reader, tokens, special)
        if block is None:
            continue
        last = slides[-1]
        lines = block.lines + sum(other.lines for other in last.blocks)
        if last.blocks and lines > _MAX_LINES and len(slides) > 1:
            slides.append(Slide(last.title, last.section))
        slides[-1].blocks.append(block)
    return [slide for slide in slides if slide.blocks or slide is slides[0]]


def _reader() -> MarkdownIt:
    try:
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_MISSING) from error
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").use(dollarmath_plugin)

    def formula(self: object, tokens: Sequence[Token], i: int, options: object, env: object) -> str:
        return mathml(tokens[i].content)

    def display(self: object, tokens: Sequence[Token], i: int, options: object, env: object) -> str:
        return f"<div class='scroll' tabindex='0'>{mathml(tokens[i].content, display=True)}</div>"

    def fence(self: object, tokens: Sequence[Token], i: int, options: object, env: object) -> str:
        return _code(tokens[i])

    for name, rule in (("math_inline", formula), ("math_block", display), ("fence", fence)):
        reader.add_render_rule(name, rule)
    return reader


def _with_outputs(blocks: Iterable[list[Token]]) -> Iterator[list[Token]]:
    """Yield the blocks, those of code together with their printed output."""
    kept: list[Token] = []
    for block in blocks:
        if kept and kept[-1].type == "fence" and block[0].type == "fence" and block[0].info == "output":
            kept = [*kept, *block]
            continue
        if kept:
            yield kept
        kept = block
    if kept:
        yield kept


def _block(reader: MarkdownIt, tokens: list[Token], special: Callable[[str, str], Block | None]) -> Any:
    first = tokens[0]
    if first.type == "fence" and first.info.startswith("{"):
        name, _, argument = first.info.strip().removeprefix("{").partition("}")
        return special(name, argument.strip())
    if first.type == "paragraph_open":
        return _paragraph(reader, tokens)
    html = reader.renderer.render(tokens, reader.options, {})
    if first.type == "fence":
        lines = sum(token.content.count("\n") * _CODE_LINE + 0.7 for token in tokens)
    elif first.type == "math_block":
        lines = (first.content.count(r"\\") + 1) * _FORMULA_LINE + 0.6
    elif first.type == "table_open":
        lines = sum(token.type == "tr_open" for token in tokens) * _TABLE_ROW + 0.5
        html = f"<div class='scroll' tabindex='0'>{html}</div>"
    else:  # a list, a quotation
        inlines = [token.content for token in tokens if token.type == "inline"]
        lines = sum(_lines_of(text) for text in inlines) + 0.2 * len(inlines)
    return Block(html, lines)


def _paragraph(reader: MarkdownIt, tokens: list[Token]) -> Block:
    """Return a paragraph, or its first sentence with the full text as a note."""
    whole = reader.renderer.render(tokens, reader.options, {})
    source = " ".join(tokens[1].content.split())
    lead = source if len(source) <= 120 else _lead(source)
    lines = _lines_of(lead) + 0.4
    return Block(whole, lines) if lead == source else Block(reader.render(lead), lines, whole)


def _lead(source: str) -> str:
    """Return the first sentence, and the last one if a formula continues it.

    If the first is a heading, bold or slanted, the next one is returned as well.
    """
    ends = [match.end(1) for match in re.finditer(r"([.!?][*_)”\"]*)\s+(?=[^\sa-z])", _masked(source))]
    if not ends:
        return source
    sentences = [source[a:b].strip() for a, b in pairwise([0, *ends, len(source)])]
    shown = 2 if re.fullmatch(r"(\*\*?)[^*]*\1", sentences[0]) else 1
    lead = " ".join(sentences[:shown])
    if re.search(r"[.!?][*_)”\"]*$", source) or len(sentences) <= shown:
        return lead
    return f"{lead} {'… ' if len(sentences) > shown + 1 else ''}{sentences[-1]}"


def _masked(source: str) -> str:
    """Return the text with formulas, code, brackets and headings masked, as no sentence ends in them."""
    inner = r"(?<=\*\*)[^*]+(?=[.:]\*\*)"
    pattern = rf"\$[^$]*\$|`[^`]*`|\([^()]*\)|\b(?:al|eq|vs|cf|e\.g|i\.e)\.|{inner}"
    return re.sub(pattern, lambda match: "X" * len(match[0]), source)


def _lines_of(text: str) -> float:
    plain = re.sub(r"\\[a-zA-Z]+|[{}$\\*`_^]", "", text)
    return float(-(-len(plain) // _LINE_LETTERS))


def _code(token: Token) -> str:
    """Return code in colours, or its printed output."""
    kind = token.info.strip()
    if kind != "python":
        style = "output" if kind == "output" else "plain"
        return f"<pre class='{style}' tabindex='0'><code>{escape(token.content)}</code></pre>"
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    coloured = highlight(token.content, PythonLexer(), HtmlFormatter(nowrap=True))
    return f"<pre tabindex='0'><code>{coloured}</code></pre>"


def slide_page(chapter: str, pictures: Sequence[Picture], exercises: Mapping[str, Exercise]) -> str:
    """Return the slides of a chapter as one page, with a slide for each picture after the first section."""

    def special(name: str, argument: str) -> Block | None:
        if name == "program":
            [program] = find_programs(argument)
            rows = sum(1.1 + len(row.meaning) // 90 for row in program.rows)
            told = len(printed_symbols(program)) + len(domains_latex(program))
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
    html, css, script = (frame.part(f"slides.{kind}", "polyopt.lecture") for kind in ("html", "css", "js"))
    return frame.page(
        re.sub(r"<[^>]*>", "", slides[0].title),
        Template(html).substitute(slides=keep_punctuation("\n".join(parts))).rstrip(),
        style=frame.part("style.css") + css, script=script,
    )  # fmt: skip


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
