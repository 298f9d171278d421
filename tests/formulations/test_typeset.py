"""Programs as they are printed, to the letter: text, LaTeX, Markdown and names."""

import cvxpy as cp
import numpy as np
import pytest

from formulations.language.program import Program, Row
from formulations.language.typeset import latex_name, latex_of, markdown_of, size_of, text_of

TEXT = """A title  —  Somebody (2001)

maximise    −‖w‖² − Σᵢ Cᵢ ζᵢ
over        w ∈ R^3, zeta_plus ∈ {0, 1}^2, count ∈ Z^(2×3), b ∈ R
subject to  short           Σⱼ wⱼ ≥ 1   [lam_star]
            a longer name   b = 0
where       Cᵢ: the price of sample i
            Bᵢ: another
with        C = 1 to 2.5, B = 0.123457, D = (not set)
size        MIQP: 12 variables, 4 constraint rows

An integer program has no multipliers."""

LATEX = r"""$$\begin{aligned}
\max_{w,\,\zeta^+,\,\text{count},\,b} \quad & -\|w\|^2 - \sum_i C_i \zeta_i \\
\text{s.t.} \quad & \sum_j w_j \ge 1 && [\lambda^*] \\
 \quad & b = 0 \\
 \quad & \zeta^+ \in \{0, 1\}^{2} \\
 \quad & \text{count} \in \mathrm{Z}^{2 \times 3} \\
\text{where} \quad & C_i \text{: the price of sample } i \\
 \quad & B_i \text{: another} \\
\end{aligned}$$"""


def made(mixed, rows=True):
    w, b = cp.Variable(3, name="w"), cp.Variable(name="b")
    zeta = cp.Variable(2, name="zeta_plus", boolean=mixed)
    count = cp.Variable((2, 3), name="count", integer=mixed)
    C, B = cp.Parameter(2, name="C", value=np.array([1.0, 2.5])), cp.Parameter(name="B", value=0.1234567891)
    value = -cp.sum_squares(w) - C @ zeta - B * b - cp.sum(count)
    given = (
        Row("short", cp.hstack([w[:2], cp.sum(w)]) >= 1, "Σⱼ wⱼ ≥ 1", "lam_star", "its price"),
        Row("a longer name", b == 0, "b = 0", "–", "nothing"),
    )
    return Program(
        name="t.p", title="A title", source="Somebody (2001)", objective=cp.Maximize(value),
        objective_text="−‖w‖² − Σᵢ Cᵢ ζᵢ" if rows else "−‖w‖²",
        variables={"w": w, "zeta_plus": zeta, "count": count, "b": b}, rows=given if rows else (),
        parameters={"C": C, "B": B, "D": cp.Parameter(name="D")} if rows else {},
        letters={"Cᵢ": "the price of sample $i$, next to $Bᵢ$", "Bᵢ": "another"} if rows else {},
    )  # fmt: skip


def test_program_is_printed_to_the_letter():
    """Text, LaTeX and Markdown of an integer program and of its relaxation."""
    whole, plain = made(True), made(False)
    where = "the price of sample i, next to Bᵢ"
    assert text_of(whole) == TEXT.replace("the price of sample i", where)
    lines = latex_of(whole).splitlines()
    assert [line for line in lines if "text{where}" not in line] == [
        line for line in LATEX.splitlines() if "text{where}" not in line
    ]
    assert lines[6].startswith(r"\text{where} \quad & C_i \text{: the price of sample } i")
    text = text_of(plain).splitlines()
    assert text[3] == "over        w ∈ R^3, zeta_plus ∈ R^2, count ∈ R^(2×3), b ∈ R"
    assert text[9] == "size        QP: 12 variables, 4 constraint rows"
    assert text[10:] == ["", "multipliers", "  lam_star   its price", "  –          nothing"]
    assert size_of(plain) == "QP: 12 variables, 4 constraint rows"
    assert r"\in" not in latex_of(plain)
    page = markdown_of(whole).split("\n\n")
    assert page[0] == "**A title** (Somebody (2001); MIQP: 12 variables, 4 constraint rows)"
    assert page[1] == latex_of(whole)
    assert page[2].splitlines() == [
        "| row | multiplier | meaning |", "|---|---|---|", r"| short | $\lambda^*$ | its price |",
        "| a longer name | – | nothing |",
    ]  # fmt: skip


def test_program_without_constraints():
    """Nothing is said of constraints, parameters and letters that are not there."""
    free = made(False, rows=False)
    assert text_of(free).splitlines()[-2:] == ["", "Without constraints there are no multipliers."]
    assert "with  " not in text_of(free)
    assert markdown_of(free).endswith("$$\n\n")


@pytest.mark.parametrize(
    ("name", "latex"),
    {
        "w": "w", "alpha": r"\alpha", "lam": r"\lambda", "lam_star": r"\lambda^*", "nu_plus": r"\nu^+",
        "nu_minus": r"\nu^-", "room": r"\text{room}", "x1": "x1", "w_up": r"w_{\text{up}}",
        "eta_of_all": r"\eta_{\text{of all}}",
    }.items(),
)  # fmt: skip
def test_names_as_latex(name, latex):
    """Greek names, stars, signs and subscripts."""
    assert latex_name(name) == latex
