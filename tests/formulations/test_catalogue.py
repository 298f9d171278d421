"""The programs of the catalogue on pages: LaTeX, MathML, prose."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from helpers.programs import ENTRIES

from formulations.language.program import Program
from formulations.language.typeset import domains_latex, latex_name, printed_symbols
from polyopt.report.programs import mathml, program_section, programs_page, prose


def test_entry_tells_its_program():
    """An entry has its family, its side, its source and its class of programs."""
    entry = next(entry for entry in ENTRIES if entry.name == "rmm.qcqp_dual")
    assert entry.family == "rmm"
    assert entry.is_dual
    assert entry.program.source == "Shivaswamy & Jebara (2008), eq. (6), corrected"
    assert entry.program.kind == "SDP"


# -- LaTeX ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [e.program for e in ENTRIES])
def test_latex_has_standard_commands_only(program):
    """The LaTeX is ASCII, with known commands, closed braces and three columns at most."""
    latex = program._repr_latex_()
    assert latex.isascii()
    assert set(re.findall(r"\\([a-zA-Z]+)", latex)) <= {
        "begin", "end", "text", "mathrm", "quad", "min", "max", "sum", "ln", "tfrac", "sqrt", "tilde", "top",
        "le", "ge", "in", "pm", "times", "circ", "succeq", "left", "right", "alpha", "beta", "gamma", "delta",
        "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "Sigma", "tau",
        "phi", "psi",
    }  # fmt: skip
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\begin\{(\w+)\}", latex).count("bmatrix") == latex.count(r"\end{bmatrix}")
    # aligned has three columns at most: what, the row, its multiplier; bmatrix has its own.
    for line in re.sub(r"\\begin\{bmatrix\}.*?\\end\{bmatrix\}", "", latex).split("\n")[1:-1]:
        assert line.count("&") in (1, 3)


@pytest.mark.parametrize("program", [e.program for e in ENTRIES])
def test_program_is_printed_in_all_formats(program):
    """Text, LaTeX and Markdown have the source, every constraint, and what each letter stands for."""
    text, latex, markdown = str(program), program._repr_latex_(), program._repr_markdown_()
    assert text.startswith(program.title)
    assert program.source in text
    for row in program.rows:
        assert row.name in text
        assert row.text in text
        assert program.row_latex(row) in latex
        assert row.meaning in text or program.problem.is_mixed_integer()
    for symbol in printed_symbols(program):
        assert symbol.text in text
        assert symbol.latex in latex
        assert symbol.latex in markdown
    assert markdown.count("|") >= (4 * (len(program.rows) + 2) if program.rows else 0)


def test_integer_variables_are_printed():
    """Text, LaTeX and the page say which variables are integer."""
    by_name = {entry.name: entry.program for entry in ENTRIES}
    for name, text, latex in (
        ("cpm.mixed_integer", "z ∈ {0, 1}^(8×2)", r"z \in \{0, 1\}^{8 \times 2}"),
        ("cpm.mixed_integer_max_worst", "z ∈ {0, 1}^(8×2)", r"z \in \{0, 1\}^{8 \times 2}"),
        ("l0.mixed_integer", "sigma ∈ {0, 1}^15", r"\sigma \in \{0, 1\}^{15}"),
    ):
        program = by_name[name]
        assert text in str(program)
        assert latex in program._repr_latex_()
        assert "∈{0,1}" in "".join(ElementTree.fromstring(program_section(program)).itertext())
        assert "–" not in program._repr_latex_()
    whole = by_name["cpm_integer.mixed_integer"]
    assert "p ∈ Z^4" in str(whole)
    assert r"p \in \mathrm{Z}^{4}" in whole._repr_latex_()


# -- mathematics on a page ------------------------------------------------------------------------


def formulas_of(program):
    """Everything of a program that a page draws as a formula."""
    names = [*program.variables, *(row.multiplier for row in program.rows)]
    told = [*domains_latex(program), *(symbol.latex for symbol in printed_symbols(program))]
    rows = [program.row_latex(row) for row in program.rows]
    return [program.objective_latex, *rows, *map(latex_name, names), *told]


WORDS = r"\\(?:text|mathrm)\{([^}]*)\}"


@pytest.mark.parametrize("program", [e.program for e in ENTRIES])
def test_mathml_keeps_numbers_and_words(program):
    """MathML and prose of a formula have the numbers and words of its LaTeX."""
    for formula in formulas_of(program):
        apart = re.sub(r"\\tfrac(\d)(\d)", r"\1 \2", re.sub(WORDS, " ", formula))
        numbers = re.findall(r"\d+(?:\.\d+)?", apart)
        drawn = ElementTree.fromstring(mathml(formula))
        assert sorted(each.text for each in drawn.iter("mn")) == sorted(numbers)
        line = ElementTree.fromstring(f"<p>{prose(formula)}</p>")
        for words in re.findall(WORDS, formula):
            assert words.translate({32: "\xa0", 39: "’"}) in "".join(drawn.itertext())
            assert words in "".join(line.itertext()).replace("\xa0", " ")


@pytest.mark.parametrize(
    ("latex", "xml"),
    [
        (r"\tfrac12\|w\|^2", "<mn>1</mn><mn>2</mn></mfrac>"),
        (r"\sum_{ik}", "∑</mo><mrow><mi>i</mi><mi>k</mi></mrow></munder>"),
        (r"12.5 x", "<mn>12.5</mn><mi>x</mi>"),
        (r"x \text{ for all } i", "<mi>x</mi><mtext>\xa0for\xa0all\xa0</mtext><mi>i</mi>"),
        (r"\mathbf{w}", "<mi>𝐰</mi>"),
        (r"\begin{cases} a & b \\ c & d\end{cases}", "<mo>{</mo><mtable"),
        (r"\begin{aligned} a &= b \\ c &= d\end{aligned}", "<mo>=</mo><mi>d</mi>"),
        (r"Q \succeq 0", "<mo>⪰</mo>"),
        (r"\lambda^*_i", "<msubsup><mi>λ</mi><mi>i</mi><mo>∗</mo></msubsup>"),
        (
            r"s_{\text{box}} \le 1",
            "<msub><mi>s</mi><mtext>box</mtext></msub><mo>≤</mo><mn>1</mn>",
        ),
        (r"\tilde x_i", '<msub><mover accent="true"><mi>x</mi>'),
        (r"a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        (r"\begin{bmatrix} a & b \\ c & d\end{bmatrix}", "<mtr><mtd><mi>c</mi></mtd>"),
        (r"\sqrt{2E}", "<msqrt><mrow><mn>2</mn><mi>E</mi></mrow></msqrt>"),
        (r"\mathrm{Ent}(p)", "<mi>Ent</mi>"),
    ],
)
def test_latex_becomes_mathml(latex, xml):
    """Each construct of the formulas has its element."""
    drawn = mathml(latex)
    ElementTree.fromstring(drawn)
    assert xml in drawn


@pytest.mark.parametrize(
    ("latex", "message"),
    [
        (r"\nonsense x", r'Unknown command "\\nonsense", at character 1 of the formula'),
        (r"\tfrac{1", "reached end of input, at character 9"),
        (r"x^", "reached end of input"),
        (r"\begin{boxes} a\end{boxes}", "boxes"),
        (r"a & b", "only appear in a table-like environment, at character 3 of the formula a & b"),
    ],
)
def test_unknown_latex_is_refused(latex, message):
    """An unknown command, environment or end is named with its place."""
    with pytest.raises(ValueError, match=message):
        mathml(latex)


class Tags(HTMLParser):
    """The tags of a page and its text; every tag is closed in order."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_page_of_programs_stands_alone():
    """The page has every title, source, constraint and letter, and no outside reference."""
    programs = [entry.program for entry in ENTRIES if entry.family in ("rmm", "spla1")]
    page = Tags(source := programs_page(programs))
    for program in programs:
        assert program.title in page.text
        assert program.source in page.text
        assert all(row.meaning in page.text and row.name in page.text for row in program.rows)
        told = [*domains_latex(program), *(symbol.latex for symbol in printed_symbols(program))]
        assert all(prose(latex) in source for latex in told)
        assert all(mathml(program.row_latex(row)) in source for row in program.rows)
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")


def test_program_text_is_escaped():
    """Angle brackets and ampersands of a title are text."""
    row = ENTRIES[0].program
    odd = Program(
        "a<b", "A <title> & more", "B (2001)", row.objective, row.objective_text, row.variables, row.rows
    )
    assert "A &lt;title&gt; &amp; more" in program_section(odd)
    assert "<title> &" not in program_section(odd)
