"""Claims in files: every form is proven by a program that shares nothing with polyopt, and no false one."""

from __future__ import annotations

import ast
import copy
import json
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.claims import FORMS, MACHINES, is_accepted, samples_of, saved
from helpers.false_claims import Falsifier, corrupted
from helpers.reader_of_claims import believes, number
from sklearn.preprocessing import StandardScaler

import polyopt
from formulations import svm
from formulations.families import hinge_families
from polyopt.certificates.claims.file import claim_of, save_claims
from polyopt.certificates.claims.statement import numeral
from polyopt.check import check as checker
from polyopt.margin.certificate import HingeProgram
from polyopt.margin.claim import state_hinge
from polyopt.margin.geometry import LinearGeometry

by_form = pytest.mark.parametrize("form", FORMS)
by_machine = pytest.mark.parametrize("form", MACHINES)


@by_form
def test_claim_is_accepted_twice(form, tmp_path, capsys):
    """The checker, and the one that is written from the page of the format alone, prove the claim."""
    told, lines = saved(form).told, saved(form).lines
    assert is_accepted(told, lines, tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == "Every step holds."
    assert believes(json.dumps(told), *saved(form).samples())


@by_machine
def test_claim_states_certificate(form):
    """The exact value is of the certificate's point, and repairing the multipliers costs next to nothing."""
    certificate, stated = saved(form).certificate, saved(form).claim["claim"]
    value, bound = float(number(stated["value"])), float(number(stated["bound"]))
    assert abs(value - certificate.primal_value) <= 1e-9 * max(1.0, abs(value))
    assert bound >= max(certificate.dual_value, 0.0) - 1e-7 * max(1.0, abs(value))


@by_form
def test_corrupted_claim_needs_second_belief(form, tmp_path):
    """A claim with a random corruption is accepted only if the second checker believes it as well."""
    told, lines, draw, refused = saved(form).told, saved(form).lines, random.Random(11), 0
    for _ in range(30 if form == "faces" else 8):
        wrong = corrupted(told, draw)
        if not is_accepted(wrong, lines, tmp_path):
            refused += 1
            continue
        assert believes(json.dumps(wrong), *saved(form).samples()), wrong
    assert refused >= 3


@by_machine
def test_false_claim_is_refused(form, tmp_path):
    """Each change of samples, numbers, multipliers and program that makes a claim false is refused."""
    told, lines = saved(form).told, saved(form).lines
    assert is_accepted(told, lines, tmp_path)
    false, count = Falsifier(saved(form).claim, tmp_path / "told.svm"), 0
    for wrong, rows, change in false.draws(random.Random(form)):
        assert not is_accepted(told | {"claims": [wrong]}, rows, tmp_path), (change, wrong)
        count += 1
    assert count >= 11


@pytest.mark.parametrize(
    ("form", "face", "weight", "value"),
    [("cpm-signs", 1, 0, -0.5), ("logistic-signs", 1, 0, -0.5), ("logistic-signs", 0, 1, -0.5),
     ("logistic-numbers", 0, 3, 0.5), ("one-norm", 0, 3, 1.5), ("pattern", 0, 0, 9.0)],
)  # fmt: skip
def test_point_outside_its_box_is_refused(form, face, weight, value, tmp_path, capsys):
    """Signs, weights that are not used, and caps of coefficients are a box, and a point is within it."""
    told = copy.deepcopy(saved(form).told)
    w = told["claims"][0]["point"]["w"]
    width = 8 if form == "pattern" else 14 if form == "one-norm" else 4
    w[face] = [str(v) for v in checker.vector(w[face], width)]
    w[face][weight] = numeral(value)
    assert not is_accepted(told, saved(form).lines, tmp_path)
    assert "outside its box" in capsys.readouterr().out


def write_table(path, X, y):
    """Write samples exactly, with the label last."""
    rows = ([*map(repr, row), str(label)] for row, label in zip(X.tolist(), y, strict=True))
    path.write_text("\n".join(map(",".join, rows)))


def test_table_with_scaled_features_is_read(tmp_path):
    """The samples of a scaled fit are a table as it stands, and the checker alone, as a file, proves it."""
    X, y = samples_of("svm")
    table, alone = tmp_path / "data.csv", tmp_path / "alone.py"
    rows = [f"{label};" + ";".join(map(repr, row)) for row, label in zip(X.tolist(), y, strict=True)]
    table.write_text("answer;a;b;c\n" + "\n".join(rows) + "\n")
    scaler = StandardScaler().fit(X)
    machine = polyopt.SVM(kernel="linear").fit(scaler.transform(X), y, sample_weight=np.arange(14) % 3)
    machine.certificate().save(tmp_path / "c.json", scaler=scaler, table=table, target="answer")
    alone.write_text(Path(checker.__file__).read_text())
    command = [sys.executable, "-I", "-S", alone, tmp_path / "c.json", table]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_sparse_samples_are_scaled_without_mean(tmp_path):
    """Sparse samples are multiplied and not divided; a table has its labels last."""
    X, y = samples_of("svm")
    sparse, labels = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0)), (y == "in").astype(int)
    plain = StandardScaler(with_mean=False).fit(sparse)
    sgd = polyopt.SGDSettings(feature_scale=0.3)
    machine = polyopt.ConvexPolytopeMachine(n_faces=1, sgd=sgd, solver="exact")
    write_table(tmp_path / "s.csv", sparse.toarray(), labels)
    found = machine.fit(plain.transform(sparse), labels).certificate()
    found.save(tmp_path / "s.json", scaler=plain, table=tmp_path / "s.csv")
    assert checker.main([str(tmp_path / "s.json"), str(tmp_path / "s.csv")]) == 0


@pytest.mark.parametrize("parts", ["pairs", "sides"])
def test_every_part_is_a_claim(parts, tmp_path, capsys):
    """A pair of classes, and each side of two, is a claim of its own."""
    X, y = samples_of("svm")
    if parts == "pairs":
        machine, y = polyopt.SVM(kernel="linear"), np.arange(14) % 3
    else:
        penalty = polyopt.FacePenalty(l1=0.1)
        machine = polyopt.ConvexPolytopeMachine(
            n_faces=2, inside_label="both", penalty=penalty, n_init=1, random_state=0
        )
    write_table(tmp_path / "d.csv", X, y)
    machine.fit(X, y).certificate().save(tmp_path / "c.json", table=tmp_path / "d.csv")
    assert checker.main([str(tmp_path / "c.json"), str(tmp_path / "d.csv")]) == 0
    assert capsys.readouterr().out.count("A claim on") == (3 if parts == "pairs" else 2)


@pytest.mark.parametrize("change", [
    {"l1": 10**6}, {"low": 0, "high": 0}, {"factor": 0, "high": 0, "low": 0}, "constant",
], ids=str)  # fmt: skip
def test_price_or_constant_is_no_ray(change, tmp_path):
    """A ray proves that no point is feasible only if faces cost their squares, and no constant is one."""
    found = copy.deepcopy(saved("ray").told)
    if change == "constant":
        found["claims"][0]["program"]["constant"] = 1
        found["claims"][0]["multipliers"]["rows"] = {"margin": [0]}
    else:
        found["claims"][0]["program"]["size"] |= change
    assert not is_accepted(found, saved("ray").lines, tmp_path)


@pytest.mark.parametrize("change", [
    ('"7/8"', '"5/8"'), ('"inf"', "1"), ('"infeasible"', '"bounds"')
], ids="->".join)  # fmt: skip
def test_changed_ray_is_refused(change, tmp_path):
    """A ray is balanced, of rows without slack, and proves nothing but that no point is feasible."""
    text = json.dumps(saved("ray").told)
    assert change[0] in text
    assert not is_accepted(text.replace(*change), saved("ray").lines, tmp_path)


def certificate_without_claim(reason):
    """A certificate that has no claim file, for one of the reasons that there are."""
    X, y = samples_of("svm")
    if reason == "not a Gram matrix":
        return polyopt.SVM(kernel="precomputed").fit(X @ X.T, y).certificate()
    if reason == "no bound":
        program = svm.primal(X, np.where(y == "in", 1.0, -1.0), 1.0)
        found = program.solve()
        return polyopt.certify_program(program, found.primal, found.duals)
    if reason == "D below 1":
        return polyopt.SigmaSVM(D=1.0, kernel="linear").fit(X, y).certificate()
    penalty = polyopt.FacePenalty(max_features=1)
    machine = polyopt.ConvexPolytopeMachine(penalty=penalty, n_faces=1, n_init=1, random_state=0)
    return machine.fit(X, y).certificate()


@pytest.mark.parametrize(
    "reason", ["not a Gram matrix", "no bound", "D below 1", "search trees over features"]
)
def test_certificate_without_claim_is_refused(reason, tmp_path):
    """What has no form in a file is refused in a sentence with its reason."""
    with pytest.raises(ValueError, match=reason):
        certificate_without_claim(reason).save(tmp_path / "c.json")


@pytest.mark.parametrize(("parts", "scaler"), [(2, None), (1, object()), (2, object())])
def test_only_unscaled_two_classes_are_written(parts, scaler, tmp_path):
    """Samples are written of two classes, as the machine saw them, alone."""
    with pytest.raises(ValueError, match="two classes"):
        save_claims(tmp_path / "c.json", [object()] * parts, scaler=scaler, data=tmp_path / "c.svm")
    assert not list(tmp_path.iterdir())


def assert_refused(told, tmp_path, capsys):
    """The checker's last line says why it refuses."""
    capsys.readouterr()
    assert not is_accepted(told, saved("svm").lines, tmp_path)
    assert capsys.readouterr().out.splitlines()[-1].startswith("Refused: ")


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"format": "polyopt claim"}', "[" * 100_000, '{"a":' * 50_000,
        '{"format": "polyopt claim", "version": 3, "claims": []}',
        '{"format": "polyopt claim", "version": 3, "version": 3, "claims": [1]}',
        '{"format": "polyopt claim", "version": 3, "claims": [3]}', '{"format": NaN}', '{"format": 1e400}',
        "9" * 10_000, "\x00\xff",
    ],
    ids=lambda text: repr(text[:60]),
)  # fmt: skip
def test_hostile_file_ends_in_sentence(text, tmp_path, capsys):
    """A file that is no claim file is refused in a sentence."""
    assert_refused(text, tmp_path, capsys)


@pytest.mark.parametrize(
    ("place", "new"),
    [
        ("point", {"w": [[]], "b": [0]}), ("point", None), ("multipliers", {"rows": {}}),
        ("claim/value", "0x1p999999999"), ("claim/value", "1/0"), ("claim/value", 1.5),
        ("claim/value", "9" * 5000), ("claim/value", "NaN"), ("claim/gap", True),
        ("claim/value", "0x1p1000000000000"), ("data/rows", [[0, 10**30]]),
        ("data/rows", [[0, 14]] * 10_000), ("data/rows", [0, 14]), ("data/rows", [["0", 14]]),
        ("data/features", 10**12), ("data/features", -1), ("data/factor", "1/3"),
        ("program/faces", 10**9), ("program/faces", 0), ("program/rows", [{}] * 30),
        ("program/rows", [[]]), ("program/features", {"kind": "kernel"}),
        ("program/features", {"kind": "rbf", "gamma": "1/" + "7" * 4000}),
        ("program/size", {"kind": "square", "factor": -1}), ("multipliers/rows", {"margin": [[[]]]}),
        ("multipliers/rows", {"margin": [{"at": [0, 0], "is": [1, 1]}]}),
        ("multipliers/rows", {"margin": [[f"1/{10**900 + k}" for k in range(14)]]}),
    ],
    ids=lambda part: str(part)[:40],
)  # fmt: skip
def test_hostile_field_ends_in_sentence(place, new, tmp_path, capsys):
    """A field of another form, or one that asks for endless work, is refused in a sentence."""
    found = copy.deepcopy(saved("svm").told)
    holder, (*path, last) = found["claims"][0], place.split("/")
    for key in path:
        holder = holder[key]
    holder[last] = new
    assert_refused(found, tmp_path, capsys)


def test_checker_imports_standard_library_alone():
    """The checker shares no code with polyopt."""
    nodes = ast.walk(ast.parse(Path(checker.__file__).read_text(encoding="utf-8")))
    names = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_exp_and_log_enclose_mpmath():
    """The checker's exponentials, logarithms and softplus are mpmath's to their stated units."""
    draw = random.Random(3)
    with mpmath.workdps(60):
        unit = mpmath.mpf(2) ** -128
        for _ in range(100):
            x = Fraction(draw.getrandbits(90) + 1, draw.getrandbits(90) + 1) ** draw.choice((1, 1, 3, 9))
            exact = mpmath.mpf(x.numerator) / x.denominator
            log = checker.ln(x)
            assert abs(mpmath.mpf(log.numerator) / log.denominator - mpmath.log(exact)) < unit / 8
            power = checker.exp(-x.numerator, x.denominator)
            assert abs(power * unit - mpmath.exp(-exact)) <= unit
            for sign in (1, -1):
                above = checker.soft_max([Fraction(0), sign * x])
                high = mpmath.mpf(above.numerator) / above.denominator
                assert 0 <= high - mpmath.log1p(mpmath.exp(sign * exact)) <= 6 * unit


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -3.0, 0.1, -1e-310, 5e-324, 1.7e308, Fraction(-22, 7), Fraction(5, 2**900)]
)
def test_numeral_is_the_number(value):
    """A number and its text in a file are equal."""
    assert checker.number(numeral(value)) == number(numeral(value)) == Fraction(value)


def test_point_is_scaled_to_hard_rows(tmp_path):
    """A point that breaks rows without slack is scaled until it keeps them, and its claim is proven."""
    X, _ = samples_of("svm")
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    X = X + signs[:, None] * [1.0, 0.0, 0.0]
    certificate = polyopt.certify_svm(X, signs, np.inf, w=[0.9, 0.0, 0.0], b=0.0)
    certificate.save(tmp_path / "c.json", data=tmp_path / "c.svm")
    assert checker.main([str(tmp_path / "c.json"), str(tmp_path / "c.svm")]) == 0


def test_multipliers_that_prove_nothing_are_dropped():
    """Samples a thousand times as large pull too hard, and the file has zeros instead of multipliers."""
    X, y = samples_of("svm")
    signs = np.where(y == "in", 1.0, -1.0)
    program = HingeProgram("it", LinearGeometry(1e3 * X, centred=True), hinge_families(signs, 0.1))
    found = claim_of(state_hinge(program, np.zeros(3), 0.0, np.full((1, 14), 0.1)))
    assert number(found["claim"]["bound"]) == 0
    assert not any(checker.vector(found["multipliers"]["rows"]["margin"][0], 14))
