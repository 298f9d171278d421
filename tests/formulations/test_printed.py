"""What is printed is what is computed: every formula of every program; and planted misprints are caught."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import permutations

import cvxpy as cp
import numpy as np
import pytest
from helpers.latex_reader import latex_pieces, plain_text
from helpers.misprints import latex_misprints, letters_of, text_misprints
from helpers.programs import ENTRIES

from formulations import (
    FAMILIES,
    cpm,
    cpm_faces,
    cpm_sparse,
    logistic_polytopes,
    pc_slp,
    polyceptron,
    rmm,
    sigma_svm,
    svm,
)
from formulations.face_penalty import FacePenalty
from formulations.language import typeset
from formulations.language.consistency import Trial, misprints
from formulations.language.notation.parser import (
    INDICES,
    UnreadableError,
    functions_of,
    read_expression,
    read_row,
)
from formulations.language.notation.printing import formulas_in, latex_of_expression
from formulations.language.notation.tree import Letter
from formulations.language.program import Program, Row
from formulations.language.toy_data import two_blobs
from formulations.language.typeset import printed_symbols, symbols_in
from polyopt.methods.programs import entries

TOLERANCE = 1e-9
X, Y = two_blobs(m=2)
WEIGHTS = 1.0 + np.arange(len(Y)) % 3


@cache
def variants():
    """Programs with arguments that print other formulas, or the same of other numbers."""
    faces, (*_, signed, grouped) = (X, Y, 2, np.arange(len(Y)) % 2), logistic_polytopes.pairs()
    return {
        "signs": signed.primal,
        "signs, dual": signed.dual,
        "groups": grouped.primal,
        "groups, dual": grouped.dual,
        "weights in the mean": sigma_svm.primal(X, Y, 1.0, 0.3, WEIGHTS),
        "weights in the mean, dual": sigma_svm.dual(X, Y, 1.0, 0.3, WEIGHTS),
        "weights in the mean, kernel": sigma_svm.kernel_dual((X @ X.T + 1.0) ** 2, Y, 1.0, 0.3, WEIGHTS),
        "no margin": polyceptron.cell(X, Y, margin=0.0),
        "no margin, dual": polyceptron.cell_dual(X, Y, margin=0.0),
        "many digits": polyceptron.fixed_assignment(*faces, margin=0.123456789012),
        "many digits, dual": polyceptron.fixed_assignment_dual(*faces, margin=0.123456789012),
        "no box": polyceptron.fixed_assignment(*faces, radius=np.inf),
        "no box, dual": polyceptron.fixed_assignment_dual(*faces, radius=np.inf),
        "no box, step": pc_slp.step(*faces, radius=np.inf),
        "no box, step, dual": pc_slp.step_dual(*faces, radius=np.inf),
        "any features": cpm_faces.subset_relaxation(X, Y, 1),
        "any features, dual": cpm_faces.subset_relaxation_dual(X, Y, 1),
        "one penalty, dual": cpm_sparse.fixed_assignment_dual(*faces, penalty=FacePenalty.of(2, l1=0.5)),
        "one face": cpm.mixed_integer(X[:8], Y[:8], 1),
        "three faces": cpm.mixed_integer(X[:8], Y[:8], 3),
        "three faces, shared slack": cpm.fixed_assignment(X, Y, 3, np.arange(len(Y)) % 3, loss="max"),
    }


def unexplained(program):
    """The letters of a program that are not explained, and not its variables or multipliers."""
    symbols = printed_symbols(program)
    letters = typeset.letters_of_program(program).union(*(symbol.mentions for symbol in symbols))
    explained = {name for symbol in symbols for name in symbol.names}
    explained |= typeset.variables_and_multipliers(program)
    functions = functions_of(program.letters)
    trees = [tree for row in program.rows for tree in formulas_in(row.says, functions)]
    # A multiplier's meaning may define a letter: "with v = (w, b, −1)".
    for claim in (claim for tree in trees if isinstance(tree, tuple) for claim in tree):
        if claim.relation.sign == "=" and isinstance(claim.relation.left, Letter):
            explained.add(claim.relation.left.name)
    return letters - explained


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_formula_is_what_is_computed(seed):
    """No formula of a program differs from its numbers, on data of three seeds."""
    found = [one for entry in entries(seed=seed) for one in misprints(entry.program, seed, TOLERANCE)]
    assert not found


@pytest.mark.parametrize("name", variants())
def test_other_arguments_print_what_they_compute(name):
    """Margins, boxes, prices and weights change formulas with the program."""
    program = variants()[name]
    assert not misprints(program, tolerance=TOLERANCE)
    for text, latex, read, _, _ in formulas(program, Trial(program)):
        functions = functions_of(program.letters)
        assert read(plain_text(latex), functions) == read(text, functions)
    assert not unexplained(program)


def test_check_leaves_the_program():
    """Values of parameters and variables are those of before."""
    program = svm.primal(X, Y, 2.0)
    solution = program.solve()
    assert not misprints(program)
    assert (program.parameters["C"].value == 2.0).all()
    assert program.variables["w"].value == pytest.approx(solution["w"], abs=0)
    fresh = svm.primal(X, Y, 2.0)
    misprints(fresh)
    assert fresh.variables["w"].value is None


def test_misprint_is_told_by_its_place():
    """The text names the program, the constraint and the character."""
    program = svm.primal(X, Y)
    wrong = replace(
        program,
        objective_text="‖w‖² + Σᵢ Cᵢ ξᵢ",
        rows=(program.rows[0], replace(program.rows[1], text="ξᵢ + ≥ 0")),
    )
    texts = misprints(wrong)
    assert texts[0] == "svm.primal, objective: ‖w‖² + Σᵢ Cᵢ ξᵢ is not what is computed"
    assert texts[1] == "svm.primal, slack: a factor is missing at character 6, '≥', of 'ξᵢ + ≥ 0'"
    assert len(texts) == 2


# -- planted misprints ----------------------------------------------------------------------------


def renamed(tree, letters):
    """A tree with other index letters."""
    if isinstance(tree, tuple):
        return tuple(renamed(part, letters) for part in tree)
    if isinstance(tree, str):
        return letters.get(tree, tree)
    if is_dataclass(tree):
        return replace(tree, **{f.name: renamed(getattr(tree, f.name), letters) for f in fields(tree)})
    return tree


def same_but_for_names(tree, other, ranges):
    """Whether two trees differ in the names of indices alone, each going as far as the one it stands for."""
    mine, theirs = ({i for i in INDICES if renamed(t, {i: "?"}) != t} for t in (tree, other))
    for order in permutations(sorted(mine)):
        letters = dict(zip(sorted(theirs), order, strict=False))
        alike = all(ranges.get(a, ranges[b]) == ranges[b] for a, b in letters.items())
        if len(mine) == len(theirs) and alike and renamed(other, letters) == tree:
            return True
    return False


def same_of_labels(formula):
    """``yᵢ < 1`` says the same of the labels +1 and −1 as ``yᵢ < 0``."""
    for one, zero in (("yᵢ < 1", "yᵢ < 0"), ("yᵢ<1", "yᵢ<0"), ("y _ i < 1", "y _ i < 0")):
        formula = formula.replace(one, zero)
    return formula


def formulas(program, trial):
    """Each formula of a program in both notations, with what reads it and what compares it."""
    yield program.objective_text, program.objective_latex, read_expression, trial.objective_difference, {}
    for row in program.rows:
        yield row.text, program.row_latex(row), read_row, trial.row_difference, {"row": row}


# Misprints of these lead through lines of the reader that no others do.
READ_WHOLE = {"logistic_polytopes.fixed_assignment", "rmm.qcqp_dual", "rmm_bounds.h_complexity"}


def planted(program, trial):
    """Every misprint of a program: its formula, itself, what reads both, and the difference that it makes."""
    letters = letters_of([program.objective_text, *(row.text for row in program.rows)])
    step = 1 if program.name in READ_WHOLE else 4
    for text, latex, read, compare, given in formulas(program, trial):
        spaced = " ".join(piece for piece, _ in latex_pieces(latex))
        known = {}  # by what is read: most misprints of the text say the same as one of the LaTeX
        for formula, wrong, plain in (
            (text, text_misprints(text, letters), str),
            (spaced, latex_misprints(latex, letters), plain_text),
        ):
            assert compare(plain(formula), **given) <= TOLERANCE

            def read_plain(one, functions, plain=plain, read=read):
                return read(plain(one), functions)

            for one in wrong[::step]:
                try:
                    tree = read_plain(one, trial.functions)
                    if tree not in known:
                        known[tree] = compare(plain(one), **given)
                    yield formula, one, read_plain, known[tree]
                except UnreadableError:
                    yield formula, one, read_plain, np.inf


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in ENTRIES])
def test_every_planted_misprint_is_caught(entry):
    """A misprint differs from what is computed, or says the same in other words."""
    program, functions = entry.program, functions_of(entry.program.letters)
    trial, count = Trial(program, 1), 0
    for formula, wrong, read, difference in planted(program, trial):
        count += 1
        if difference > 1e3 * TOLERANCE:
            continue
        # What is left says the same, in other words.
        tree, other = (read(f, functions) for f in (formula, same_of_labels(wrong)))
        assert tree == other or same_but_for_names(tree, other, trial.ranges), f"{wrong} for {formula} passes"
    assert count > 12


def definitions(name):
    """The letters of a family that have a formula, each with the programs in which it is evaluated."""
    found = {}
    for entry in ENTRIES:
        for symbol in printed_symbols(entry.program) if entry.family == name else ():
            for key, said in entry.program.letters.items():
                if symbol.definition is not None and symbol.text.startswith(f"{key} = "):
                    found.setdefault((key, said), []).append(entry.program)
    return found


# Σᵢ (xᵢ + μ)(xᵢ − μ)' is Σᵢ (xᵢ − μ)(xᵢ − μ)' and 2μ times Σᵢ (xᵢ − μ)' = 0.
CENTRED = ("(1/n) Σᵢ (xᵢ + μ)(xᵢ − μ)'", "(1/n) Σᵢ (xᵢ − μ)(xᵢ + μ)'")


@pytest.mark.parametrize("name", FAMILIES)
def test_misprint_of_definition_is_caught(name):
    """A misprint in a letter's definition is caught in a program that evaluates it."""
    for (key, said), programs in definitions(name).items():
        body, colon, words = said.removeprefix("= ").partition(": ")
        for wrong in text_misprints(body, letters_of([body]))[:: 1 if name == "rmm" else 4]:
            assert wrong in CENTRED or any(caught(p, {key: f"= {wrong}{colon}{words}"}) for p in programs), (
                f"{key} = {wrong} for {body} passes"
            )


def caught(program, letters):
    try:
        return misprints(replace(program, letters={**program.letters, **letters}), 1)
    except UnreadableError:
        return True


def test_definition_is_read_from_latex():
    """The LaTeX of a definition is read back to the same tree."""
    found = [
        (s.definition, functions_of(e.program.letters)) for e in ENTRIES for s in printed_symbols(e.program)
    ]
    found = [(definition, functions) for definition, functions in found if definition is not None]
    for definition, functions in found:
        latex = latex_of_expression(definition.body)
        assert read_expression(plain_text(latex), functions) == definition.body
    assert {one.head.name for one, _ in found} >= {"M", "q", "δ", "δ_f", "c", "μ", "Σ", "Σ_λ", "K", "H", "x̃"}


@pytest.mark.parametrize(
    ("make", "row", "text"),
    [
        # what a multiplier or the direction of a row depends on, though the set of points does not
        (lambda: svm.dual(X, Y), "b", "−Σᵢ αᵢ yᵢ = 0"),
        (lambda: svm.dual(X, Y), "b", "2 Σᵢ αᵢ yᵢ = 0"),
        (lambda: rmm.qcqp(X, Y), "spread", "(w·xᵢ + b)² ≤ B²"),
        (lambda: rmm.qp(X, Y), "bound_below", "w·xᵢ + b ≥ B"),
        (lambda: rmm.qcqp_dual(X, Y), "w_b", "[t, q'; q, M(λ)] ⪰ 0"),
        (lambda: svm.primal(X, Y), "slack", "ξᵢ > 0"),
        (lambda: svm.primal(X, Y), "slack", "ξᵢ ≥ 0 for yᵢ > 0"),
        (lambda: svm.primal(X, Y), "slack", "ξᵢ ≥ 0, ξᵢ ≥ 0"),
        (
            lambda: cpm.fixed_assignment_dual(X, Y, 2, (Y > 0).astype(int), 1.0, "max"),
            "xi",
            "Σₖ αᵢₖ ≤ Cᵢ for yᵢ < 0",
        ),
        (lambda: cpm.fixed_assignment_dual(X, Y, 2, (Y > 0).astype(int), 1.0, "max"), "xi", "Σₖ αᵢₖ ≤ Cᵢ"),
    ],
)
def test_other_constraint_is_noticed(make, row, text):
    """Sign, factor, direction and range of a printed constraint are those of the program."""
    program = make()
    rows = tuple(replace(one, text=text) if one.name == row else one for one in program.rows)
    assert misprints(replace(program, rows=rows))


@pytest.mark.parametrize("text", ["w", "ξᵢ", "yᵢ xᵢ"])
def test_objective_is_one_number(text):
    """Neither a vector nor a number for each sample is one."""
    (found,) = misprints(replace(svm.primal(X, Y), objective_text=text))
    assert "is not one number" in found


def test_index_has_one_range():
    """An index that goes further in one constraint than in another is told."""
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    rows = (Row("a", x >= 0, "xᵢ ≥ 0", "a", ""), Row("b", y >= 0, "yᵢ ≥ 0", "b", ""))
    program = Program("toy", "Toy", "", cp.Minimize(cp.sum(x)), "Σᵢ xᵢ", {"x": x, "y": y}, rows)
    assert misprints(program) == ["toy, b: yᵢ has 3 entries along i; i goes up to 2 elsewhere"]
    right = replace(program, rows=(rows[0], replace(rows[1], text="yⱼ ≥ 0")))
    assert not misprints(right)


# -- letters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [e.program for e in ENTRIES])
def test_every_letter_is_explained(program):
    """A letter is a variable, a multiplier, or explained."""
    assert not unexplained(program)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_explanation_is_used(name):
    """No letter is explained that a family does not print."""
    programs = [entry.program for entry in ENTRIES if entry.family == name]
    programs += [program for key, program in variants().items() if program.name.startswith(f"{name}.")]
    given = {key for program in programs for key in program.letters}
    used = {
        key for p in programs for key in p.letters for s in symbols_in({key: p.letters[key]}) if told(p, s)
    }
    assert given <= used, f"{sorted(given - used)} are explained and not used"


def told(program, symbol):
    return set(symbol.names) & {name for one in printed_symbols(program) for name in one.names}


def test_unexplained_letter_is_noticed():
    """Letters without an explanation are found."""
    program = rmm.qcqp_dual(X, Y)
    assert unexplained(replace(program, letters={})) == {"M", "q", "f", "w", "b", "B", "C"}
    fewer = {key: said for key, said in program.letters.items() if key != "xᵢ"}
    assert unexplained(replace(program, letters=fewer)) == {"x"}


def test_unused_letter_is_not_printed():
    """A letter is printed once a formula has it."""
    program = svm.primal(X, Y)
    more = replace(program, letters={**program.letters, "ρ": "> 0: a letter of another program"})
    assert str(more) == str(program)
    assert "ρ > 0: a letter of another program" in str(replace(more, objective_text="½‖w‖² + ρ Σᵢ Cᵢ ξᵢ"))
