"""The reader of the notation: what it reads, what it makes of it, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.latex_reader import plain_text

from formulations.language.notation.evaluation import Scope
from formulations.language.notation.parser import (
    UnreadableError,
    read_definition,
    read_expression,
    read_row,
)
from formulations.language.notation.printing import (
    formulas_in,
    latex_of_expression,
    plain,
    words_latex,
)

RNG = np.random.default_rng(5)
A, B2 = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))
x, y, K, X = RNG.normal(size=4), RNG.normal(size=4), RNG.normal(size=(4, 4)), RNG.normal(size=(4, 3))
w, p = RNG.normal(size=3), RNG.uniform(0.1, 0.9, size=(4, 2))
S = A @ A.T
LETTERS = {"A": A, "B": B2, "x": x, "y": y, "K": K, "X": X, "w": w, "p": p, "c": 1.7, "S": S, "n": 4.0}


def value(text, *, definitions=(), functions=()):
    scope = Scope(LETTERS, [read_definition(one, functions) for one in definitions])
    return scope.value(read_expression(text, functions))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 + 3 − 4", 1.0),
        ("−2²", -4.0),
        ("½ c²", 0.5 * 1.7**2),
        ("1/c/2", 1 / 1.7 / 2),
        ("1/2 c", 1.7 / 2),
        ("1/(2c)", 1 / 3.4),
        ("¾ 1.5", 1.125),
        ("x·y", x @ y),
        ("x'y", x @ y),
        ("x'Ky", x @ K @ y),
        ("Σᵢ xᵢ yᵢ", x @ y),
        ("Σᵢ xᵢ + c", x.sum() + 1.7),
        ("Σᵢ (xᵢ + c)", x.sum() + 4 * 1.7),
        ("Σᵢⱼ xᵢ Kᵢⱼ yⱼ", x @ K @ y),
        ("Σᵢ xᵢ Σⱼ Kᵢⱼ yⱼ", x @ K @ y),
        ("Σᵢ Kᵢᵢ", np.trace(K)),
        ("tr A", np.trace(A)),
        ("tr(A'B)", np.sum(A * B2)),
        ("‖X‖²", np.sum(X**2)),
        ("Σᵢ ‖Xᵢ‖", np.linalg.norm(X, axis=1).sum()),
        ("‖Σᵢ xᵢ Xᵢ‖²", np.sum((x @ X) ** 2)),
        ("Σᵢ xᵢ (w·Xᵢ)", x @ X @ w),
        ("w'(cI + S)⁻¹w", w @ np.linalg.inv(1.7 * np.eye(3) + S) @ w),
        ("‖S^½ w‖²", w @ S @ w),
        ("w'(Σᵢ XᵢXᵢ')w", w @ X.T @ X @ w),
        ("Σᵢ ln(1 + exp(−xᵢ))", np.log1p(np.exp(-x)).sum()),
        ("ln Σᵢ exp(xᵢ)", np.log(np.exp(x).sum())),
        ("Σᵢₖ pᵢₖ ln pᵢₖ", np.sum(p * np.log(p))),
        ("sqrt(c)", np.sqrt(1.7)),
        ("Σ_{xᵢ<0} yᵢ", y[x < 0].sum()),
        ("Σ_{j<i} Kᵢⱼ", np.tril(K, -1).sum(axis=1)),
        ("‖x∘y‖²", np.sum((x * y) ** 2)),
        ("‖(w, c)‖²", w @ w + 1.7**2),
        ("tr [A, w; w', c]", np.trace(A) + 1.7),
        ("tr [S, A; A', I]", np.trace(S) + 3),
        ("[2 + c] c", 3.7 * 1.7),
    ],
)
def test_formula_has_its_value(text, expected):
    """Text and LaTeX of a formula have numpy's value."""
    tree = read_expression(text)
    latex = latex_of_expression(tree)
    assert read_expression(plain_text(latex)) == tree
    with np.errstate(all="raise"):
        assert value(text).array == pytest.approx(expected, rel=1e-12)
        assert value(plain_text(latex)).array == pytest.approx(expected, rel=1e-12)


def test_index_of_a_neighbour():
    """An index one before or after is not defined at the end."""
    scope = Scope({"x": x, "z": p})
    before = scope.value(read_expression("z_{i,k−1}")).array
    assert np.isnan(before[:, 0]).all()
    assert (before[:, 1] == p[:, 0]).all()
    after = scope.value(read_expression("z_{i+1,k}")).array
    assert (after[:-1] == p[1:]).all()
    assert np.isnan(after[-1]).all()


def test_definition_is_evaluated():
    """Letters and functions without a number have the value of their formula."""
    given = ["μ = (1/n) Σᵢ Xᵢ", "H(v) = −v ln v − (1 − v) ln(1 − v)", "Gᵢⱼ = Xᵢ·Xⱼ", "Ent(q) = −Σₖ qₖ ln qₖ"]
    options = {"definitions": given, "functions": {"H", "Ent"}}
    assert value("‖μ‖²", **options).array == pytest.approx(np.sum(X.mean(axis=0) ** 2))
    assert value("x'Gx", **options).array == pytest.approx(np.sum((x @ X) ** 2))
    entropies = -p * np.log(p) - (1 - p) * np.log(1 - p)
    assert value("Σᵢₖ H(pᵢₖ)", **options).array == pytest.approx(entropies.sum())
    assert value("Σᵢ Ent(pᵢ)", **options).array == pytest.approx(-np.sum(p * np.log(p)))
    assert value("H c", **{**options, "definitions": ["H = 2"], "functions": ()}).array == pytest.approx(3.4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("½‖w‖² +", "a factor is missing at its end"),
        ("½‖w² + c", "'‖' is missing at its end"),
        ("(c + 1", r"'\)' is missing at its end"),
        ("c + 1)", r"unexpected token at character 6, '\)'"),
        ("c ? 1", r"unknown character '\?', at character 3"),
        ("/c", "the numerator is missing at character 1"),
        ("c/", "a factor is missing at its end"),
        ("x^", "nothing follows"),
        ("ln", "the argument of ln is missing at its end"),
        ("ent(c)", "ent is not defined"),
        ("z", "z has no value"),
        ("xᵢⱼ", "xᵢⱼ has an index too many"),
        ("Σⱼ xᵢ", "a sum over j has no j in its terms"),
        ("Σᵢ xᵢ pᵢₖ Xₖ", "Xₖ has 4 entries along k; k goes up to 2 elsewhere"),
        ("x + c", "a vector and a number are added"),
        ("x + x'", "a vector and a row are added"),
        ("x + w", "a vector and a vector of different sizes are added"),
        ("x x", "a vector is multiplied by a vector"),
        ("A x", "a matrix is multiplied by a vector of another size"),
        ("ln x", "ln is of a number, not of a vector"),
        ("1/x", "a denominator is of a number, not of a vector"),
        ("‖c‖", "a norm is of a vector or a matrix, not of a number"),
        ("x²", "a vector has no power"),
        ("X⁻¹", "a matrix that is not square has no power"),
        ("A²", "only the inverse and the root"),
        ("c^x", "an exponent is a number, not a vector"),
        ("tr x", "tr is of a matrix"),
        ("tr(A, A)", "tr is of one argument"),
        ("c∘c", "∘ joins vectors"),
        ("x∘w", "∘ joins vectors"),
        ("[A, w; c]", "not of one length"),
        ("[A, x; x', c]", "do not agree in height"),
        ("(A, 1)", "not a matrix"),
        ("[x, 1]", "do not agree|one length"),
        ("Σ_{c<0} xᵢ", "an index is missing under the sum"),
        ("xᵢ for c > 0", "unexpected token"),
        ("x_{−1}", "an index is missing before its step"),
        ("x_{[i}", "the brackets of a subscript do not match"),
        ("x_{i", "'}'|a letter"),
    ],
)
def test_unreadable_formula_is_refused(text, sentence):
    """The sentence names what is wrong, and where."""
    with pytest.raises(UnreadableError, match=sentence):
        value(text)


@pytest.mark.parametrize(
    ("latex", "sentence"),
    [
        (r"\nonsense x", r"unknown command \\nonsense, at character 1 of"),
        (r"\tfrac{1", "ends without }"),
        (r"x^", "ends too early, at character 3 of"),
        (r"x + {y", "ends without }, at character 7 of"),
        (r"\begin{cases} a\end{cases}", "the only known environment is bmatrix"),
        (r"\tilde 1", "must be followed by a letter"),
        ("x ? y", r"unknown character '\?'"),
        (r"\sum x_i", "the summation index is missing"),
    ],
)
def test_unreadable_latex_is_refused(latex, sentence):
    """The sentence names what is wrong, and where."""
    with pytest.raises(UnreadableError, match=sentence):
        read_expression(plain_text(latex))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("xᵢ", "a relation is missing at its end"),
        ("xᵢ ≥ 0 ≥ 1", "unexpected token"),
        ("xᵢ ≥ 0 for", "a factor is missing"),
    ],
)
def test_unreadable_constraint_is_refused(text, sentence):
    """A relation, its end and its condition are missed by name."""
    with pytest.raises(UnreadableError, match=sentence):
        read_row(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x ≥ 1", "a number and a vector are added"),
        ("c ⪰ 0", "⪰ is between matrices"),
        ("I = 0", "a unit matrix is compared"),
    ],
)
def test_impossible_relation_is_refused(text, sentence):
    """Vectors, matrices and numbers are compared with their kind."""
    with pytest.raises(UnreadableError, match=sentence):
        Scope(LETTERS).residual(read_row(text)[0].relation)


def test_circular_definition_is_refused():
    """A letter defined by itself is named."""
    scope = Scope({}, [read_definition("a = b + 1"), read_definition("b = a")])
    with pytest.raises(UnreadableError, match="a is defined by itself"):
        scope.value(read_expression("a"))


def test_definition_has_indices_of_formula():
    """A definition of other indices than its formula is refused."""
    scope = Scope({"x": x}, [read_definition("aᵢ = c"), read_definition("b = xᵢ"), read_definition("c = 1")])
    for name, sentence in (("aᵢ", "aᵢ is defined by a formula of no index"), ("b", "b is .* formula of i")):
        with pytest.raises(UnreadableError, match=sentence):
            scope.value(read_expression(name))


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("½‖w‖² + Σᵢ Cᵢ ξᵢ", r"\tfrac12 \|w\|^2 + \sum_i C_i \xi_i"),
        ("(2E/n) Σᵢ λ*ᵢ", r"\tfrac{2E}{n} \sum_i \lambda^*_i"),
        ("Σ_{yᵢ<0} Cᵢ s⁺ᵢ", r"\sum_{y_i<0} C_i s^+_i"),
        ("(Σᵢ λᵢ) I + DΣ_λ", r"\left(\sum_i \lambda_i\right) I + D \Sigma_\lambda"),
        ("c'((1−D)I + DΣ)⁻¹c", r"c^\top \left((1 - D) I + D \Sigma\right)^{-1} c"),
        ("c ((1 + B)² + D)", r"c \left((1 + B)^2 + D\right)"),
        ("c (B^{1+D} + D)", r"c (B^{1 + D} + D)"),
        ("β_f'K_fh β_h", r"\beta_f^\top K_{fh} \beta_h"),
        ("ln(1 + exp(−zᵢ)) + ρ/2", r"\ln(1 + e^{-z_i}) + \tfrac{\rho}{2}"),
        ("λ*'x̃ᵢ", r"{\lambda^*}^\top \tilde x_i"),
        ("ξ₍ᵢₖ₎ − z_{j,k−1}", r"\xi_{[ik]} - z_{j,k-1}"),
    ],
)
def test_latex_of_formula(text, latex):
    """The LaTeX of a formula is as a paper prints it, and is read back to the same tree."""
    assert latex_of_expression(read_expression(text)) == latex
    assert read_expression(plain_text(latex)) == read_expression(text)


def test_sentence_with_formulas():
    """Text and LaTeX of a sentence have its formulas in place."""
    words = "the slack $ξᵢ$, at most $Cᵢ − αᵢ$ for −1"
    assert plain(words) == "the slack ξᵢ, at most Cᵢ − αᵢ for −1"
    assert words_latex(words) == r"\text{the slack } \xi_i \text{, at most } C_i - \alpha_i \text{ for -1}"
    assert formulas_in(words) == [read_expression("ξᵢ"), read_expression("Cᵢ − αᵢ")]
    with pytest.raises(ValueError, match="a formula has no end"):
        formulas_in("the slack $ξᵢ")


def test_index_is_a_number():
    """An index whose range is known is the numbers from 0."""
    scope = Scope({"x": x})
    with pytest.raises(UnreadableError, match="i has no value"):
        scope.value(read_expression("i"))
    scope.value(read_expression("xᵢ"))
    assert scope.value(read_expression("i")).array.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(UnreadableError, match="has no value"):
        scope.value(read_expression("iᵢ"))
    with pytest.raises(UnreadableError, match="z has no value"):
        scope.value(read_expression("z"))


def test_terms_have_signs():
    """Terms are added or subtracted."""
    for text, signs in (("−a + b − c", [-1, 1, -1]), ("a − b", [1, -1]), ("−a", [-1])):
        assert [sign for sign, _ in read_expression(text).terms] == signs
    assert read_expression("+a") == read_expression("a")
