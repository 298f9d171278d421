"""Claims in files: what polyopt writes is proven by a program that shares nothing with it, or refused."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.corrupted_claims import corrupted
from helpers.reader_of_claims import believes, number
from sklearn.preprocessing import StandardScaler

import polyopt
from formulations import svm
from formulations.families import hinge_families
from polyopt.certificates.claims.file import claim_of, save_claims
from polyopt.certificates.claims.statement import numeral, numerals
from polyopt.check import check as checker
from polyopt.margin.certificate import HingeProgram
from polyopt.margin.claim import state_hinge
from polyopt.margin.geometry import LinearGeometry

CHECKER = Path(checker.__file__)
FEW: dict[str, Any] = {"n_faces": 2, "solver": "exact", "n_init": 1, "random_state": 0}
MACHINES = {
    "svm": polyopt.SVM(C=0.7, kernel="linear", class_weight={"in": 1.3, "out": 1.0}),
    "rmm": polyopt.RelativeMarginMachine(C=2.0, B=1.6, kernel="linear"),
    "soft": polyopt.RelativeMarginMachine(C=2.0, B=1.6, bound_cost=1.0, kernel="linear"),
    "cpm": polyopt.ConvexPolytopeMachine(n_faces=2, solver="exact", n_init=2, random_state=0),
    "max": polyopt.ConvexPolytopeMachine(n_faces=2, loss="max", solver="exact", n_init=2, random_state=0),
    "worst": polyopt.ConvexPolytopeMachine(
        n_faces=2, penalty=polyopt.FacePenalty(margin="worst"), solver="exact", n_init=1, random_state=0
    ),
    "sigma": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="linear"),
    "poly": polyopt.SVM(C=1.0, kernel="poly", degree=2, coef0=1.0),
    "rbf": polyopt.RelativeMarginMachine(C=1.0, B=1.3, kernel="rbf"),
    "one-norm": polyopt.OneNormSVM(C=1.0, kernel="linear"),
    "one-norm-rbf": polyopt.OneNormSVM(C=1.0, kernel="rbf"),
    "polyceptron": polyopt.Polyceptron(n_faces=2, solver="highs", n_init=1, random_state=0),
    "pc-slp": polyopt.PCSLP(n_faces=2, n_init=1, random_state=0),
    "spla1": polyopt.SPLA1(n_faces=2, positives="all", n_init=1, random_state=0),
    "sigma-rbf": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="rbf"),
    "signs": polyopt.ConvexPolytopeMachine(penalty=polyopt.FacePenalty(l1=0.3, signs=[1, 0, 0]), **FEW),
    "groups": polyopt.ConvexPolytopeMachine(
        penalty=polyopt.FacePenalty(group=0.5, feature_groups=[0, 0, 1]), **FEW
    ),
    "integers": polyopt.ConvexPolytopeMachine(
        penalty=polyopt.FacePenalty(integers=4), n_faces=2, n_init=1, random_state=0
    ),
    "plume": polyopt.PLUME(n_faces=2, gamma=0.7, n_init=1, random_state=0),
    "logistic": polyopt.LogisticPolytopes(n_faces=(1, 2), n_init=1, random_state=0),
    "logistic-signs": polyopt.LogisticPolytopes(
        n_faces=(1, 2), penalty=polyopt.FacePenalty(l1=0.3, signs={0: 1, 1: -1}), n_init=1, random_state=0
    ),
    "logistic-group": polyopt.LogisticPolytopes(
        n_faces=(1, 2),
        penalty=polyopt.FacePenalty(l1=0.1, group=0.5, signs={0: 1}, feature_groups=[[1, 2]]),
        n_init=1,
        random_state=0,
    ),
    "logistic-few": polyopt.LogisticPolytopes(
        n_faces=(0, 2), penalty=polyopt.FacePenalty(l1=0.1), max_numbers=4, n_init=1, random_state=0
    ),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(26, 3))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.8 * rng.normal(size=26) > 0.6, "out", "in")
    return X, y


@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    folder, (X, y) = tmp_path_factory.mktemp("claims"), data
    found = {}
    for name, machine in MACHINES.items():
        certificate = machine.fit(X, y).certificate()
        certificate.save(folder / f"{name}.json", data=folder / f"{name}.svm")
        found[name] = (folder / f"{name}.json", folder / f"{name}.svm", certificate)
    return found


def verdict(claim, cells, capsys=None):
    status = checker.main([str(claim), str(cells)])
    return status if capsys is None else (status, capsys.readouterr().out)


@pytest.mark.parametrize("name", MACHINES)
def test_every_family_is_proven(name, saved, capsys):
    claim, cells, certificate = saved[name]
    status, text = verdict(claim, cells, capsys)
    assert (status, text.splitlines()[-1]) == (0, "Every step holds."), text
    stated = json.loads(claim.read_text())["claims"][0]["claim"]
    value, bound = float(number(stated["value"])), float(number(stated["bound"]))
    # The exact value is of the same point; the repair of the multipliers costs next to nothing.
    assert abs(value - certificate.primal_value) <= 1e-9 * max(1.0, abs(value))
    assert bound >= max(certificate.dual_value, 0.0) - 1e-7 * max(1.0, abs(value))


@pytest.mark.parametrize("name", MACHINES)
def test_a_checker_written_from_the_page_alone_agrees(name, saved):
    claim, cells, _ = saved[name]
    rows, labels = zip(*checker.from_svmlight(str(cells)), strict=True)
    X, y = [[row.get(j, 0.0) for j in range(3)] for row in rows], [int(label) for label in labels]
    assert believes(claim.read_text(), X, y)
    draw, refused = random.Random(11), 0
    for _ in range(12):
        text = json.dumps(corrupted(json.loads(claim.read_text()), draw))
        claim.with_suffix(".bad").write_text(text)
        try:
            truth = believes(text, X, y)
        except (ValueError, KeyError, ZeroDivisionError, TypeError, IndexError):
            truth = False
        # What the second does not read (digest, labels, rows) may make the first refuse, never accept.
        proven = verdict(claim.with_suffix(".bad"), cells) == 0
        assert truth or not proven
        refused += not proven
    assert refused >= 5


@pytest.mark.parametrize("name", MACHINES)
def test_a_claim_that_says_a_little_more_is_refused(name, saved, tmp_path):
    claim, cells, _ = saved[name]
    for field, way in (("value", -1), ("bound", 1), ("gap", -1)):
        found = json.loads(claim.read_text())
        stated = found["claims"][0]["claim"]
        exact = number(stated[field])
        # Three units in the last place: exact values may be above what a rounding would have left them at.
        stated[field] = numeral(exact + way * max(abs(exact), Fraction(1, 10**9)) * Fraction(3, 2**52))
        changed = tmp_path / "more.json"
        changed.write_text(json.dumps(found))
        assert verdict(changed, cells) == 1, field


@pytest.mark.parametrize("name", MACHINES)
def test_claims_of_other_data_or_parameters_are_refused(name, saved, tmp_path):
    """A claim is refused with other samples, cheaper sizes, lower caps and broken multipliers."""
    claim, cells, _ = saved[name]
    lines = cells.read_text().splitlines()
    last = next(k for k in range(len(lines[3]) - 1, 0, -1) if lines[3][k].isdigit() and lines[3][k] != "0")
    digit = str((int(lines[3][last]) + 4) % 10)
    moved = [*lines[:3], lines[3][:last] + digit + lines[3][last + 1 :], *lines[4:]]
    flipped = [("-" if lines[0][0] == "+" else "+") + lines[0][1:], *lines[1:]]
    for wrong in (moved, flipped, lines[1:], [*lines[1:], lines[0]]):
        (tmp_path / "other.svm").write_text("\n".join(wrong))
        assert verdict(claim, tmp_path / "other.svm") == 1

    def size_cheaper(c):
        size = c["program"]["size"]
        key = next((k for k in ("factor", "share", "cost", "high") if k in size), None)
        size[key or "factor"] = numeral(Fraction(1, 2**20)) if key != "high" else numeral(Fraction(1, 2**30))

    def caps_lower(c):
        for rows in c["program"]["rows"]:
            if rows["cap"] != "inf":
                rows["cap"] = numeral(Fraction(1, 2**30))

    def unbalanced(c):
        for parts in c["multipliers"]["rows"].values():
            parts[0] = numerals([Fraction(1, 2**40), *[Fraction(0)] * 25])

    def negative(c):
        for parts in c["multipliers"]["rows"].values():
            parts[0] = [numeral(Fraction(-1, 2**60))] * 26

    def too_large(c):
        for rows in c["program"]["rows"]:
            c["multipliers"]["rows"][rows["name"]][0] = 10**9

    for change in (caps_lower, unbalanced, negative, too_large, size_cheaper):
        found = json.loads(claim.read_text())
        stated = found["claims"][0]["claim"]
        free = change is size_cheaper and name in ("polyceptron", "pc-slp")
        if free or number(stated["bound"]) == 0:
            continue  # their faces cost nothing, and a bound of 0 needs no multipliers
        change(found["claims"][0])
        (tmp_path / "changed.json").write_text(json.dumps(found))
        assert verdict(tmp_path / "changed.json", cells) == 1, change.__name__


def test_a_table_with_scaled_features_is_read_as_it_stands(data, tmp_path, capsys):
    X, y = data
    table = tmp_path / "data.csv"
    rows = [f"{label};" + ";".join(map(repr, row)) for row, label in zip(X.tolist(), y, strict=True)]
    table.write_text("answer;a;b;c\n" + "\n".join(rows) + "\n")
    scaler = StandardScaler().fit(X)
    machine = polyopt.SVM(kernel="linear").fit(scaler.transform(X), y, sample_weight=np.arange(26) % 3)
    machine.certificate().save(tmp_path / "c.json", scaler=scaler, table=table, target="answer")
    alone = tmp_path / "alone.py"
    alone.write_text(CHECKER.read_text())
    done = subprocess.run(
        [sys.executable, "-I", "-S", alone, tmp_path / "c.json", table],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    # Sparse samples are multiplied and not divided; a table has its labels last.
    sparse = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    plain = StandardScaler(with_mean=False).fit(sparse)
    machine = polyopt.ConvexPolytopeMachine(
        n_faces=1, sgd=polyopt.SGDSettings(feature_scale=0.3), solver="exact"
    )
    labels = (y == "in").astype(int)
    write_table(tmp_path / "s.csv", sparse.toarray(), labels)
    found = machine.fit(plain.transform(sparse), labels).certificate()
    found.save(tmp_path / "s.json", scaler=plain, table=tmp_path / "s.csv")
    assert verdict(tmp_path / "s.json", tmp_path / "s.csv", capsys)[0] == 0


def write_table(path, X, y):
    """Write samples exactly, with the label last."""
    rows = ([*map(repr, row), str(label)] for row, label in zip(X.tolist(), y, strict=True))
    path.write_text("\n".join(map(",".join, rows)))


def test_every_pair_of_classes_is_a_claim(tmp_path, capsys):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)), rng.permutation(np.repeat([3, 1, 2], 10))
    write_table(tmp_path / "d.csv", X, y)
    polyopt.SVM(kernel="linear").fit(X, y).certificate().save(tmp_path / "c.json", table=tmp_path / "d.csv")
    status, text = verdict(tmp_path / "c.json", tmp_path / "d.csv", capsys)
    assert (status, text.count("A claim on")) == (0, 3)


def test_each_side_of_two_is_a_claim(data, tmp_path, capsys):
    X, y = data
    machine = polyopt.ConvexPolytopeMachine(
        inside_label="both", penalty=polyopt.FacePenalty(l1=0.1), **FEW
    ).fit(X, y)
    write_table(tmp_path / "d.csv", X, y)
    machine.certificate().save(tmp_path / "c.json", table=tmp_path / "d.csv")
    status, said = verdict(tmp_path / "c.json", tmp_path / "d.csv", capsys)
    assert (status, said.count("A claim on")) == (0, 2)


def test_a_constant_is_no_ray_and_a_price_none_either(tmp_path, capsys):
    line, y = np.array([[0.0], [1.0], [0.25], [2.0]]), np.array([1, -1, -1, 1])
    ray = polyopt.certify_svm(line, y, np.inf, alpha=[0.875, 0.0, 1.0, 0.125])
    ray.save(tmp_path / "c.json", data=tmp_path / "c.svm")
    text = (tmp_path / "c.json").read_text()
    for change in ({"l1": 10**6}, {"low": 0, "high": 0}, {"factor": 0, "high": 0, "low": 0}, {}):
        found = json.loads(text)
        found["claims"][0]["program"]["size"] |= change
        if not change:
            found["claims"][0]["program"]["constant"] = 1
            found["claims"][0]["multipliers"]["rows"] = {"margin": [0]}
        (tmp_path / "c.json").write_text(json.dumps(found))
        assert verdict(tmp_path / "c.json", tmp_path / "c.svm") == 1


def test_what_has_no_form_is_refused_in_a_sentence(data, tmp_path):
    X, y = data
    gram = polyopt.SVM(kernel="precomputed").fit(X @ X.T, y).certificate()
    with pytest.raises(ValueError, match="not a Gram matrix"):
        gram.save(tmp_path / "c.json")
    program = svm.primal(X, np.where(y == "in", 1.0, -1.0), 1.0)
    found = program.solve()
    with pytest.raises(ValueError, match="no bound"):
        polyopt.certify_program(program, found.primal, found.duals).save(tmp_path / "c.json")
    few = polyopt.ConvexPolytopeMachine(
        penalty=polyopt.FacePenalty(max_features=1), n_faces=1, n_init=1, random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="search trees over features"):
        few.certificate().save(tmp_path / "c.json")
    with pytest.raises(ValueError, match="D below 1"):
        polyopt.SigmaSVM(D=1.0, kernel="linear").fit(X, y).certificate().save(tmp_path / "c.json")


@pytest.mark.parametrize(("parts", "scaler"), [(2, None), (1, object()), (2, object())])
def test_only_data_of_two_unscaled_classes_are_written(parts, scaler, tmp_path):
    """Data are written of two classes as the machine saw them alone."""
    with pytest.raises(ValueError, match="two classes"):
        save_claims(tmp_path / "c.json", [object()] * parts, scaler=scaler, data=tmp_path / "c.svm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"format": "polyopt claim"}', "[" * 100_000, '{"a":' * 50_000,
        '{"format": "polyopt claim", "version": 3, "claims": []}',
        '{"format": "polyopt claim", "version": 3, "version": 3, "claims": [1]}',
        '{"format": "polyopt claim", "version": 3, "claims": [3]}', '{"format": NaN}', '{"format": 1e400}',
        "9" * 10_000, "\x00\xff",
    ],
)  # fmt: skip
def test_a_hostile_file_ends_in_a_sentence(text, saved, tmp_path, capsys):
    (tmp_path / "bad.json").write_text(text)
    status, said = verdict(tmp_path / "bad.json", saved["svm"][1], capsys)
    assert status == 1
    assert said.splitlines()[-1].startswith("Refused: ")


@pytest.mark.parametrize(
    ("place", "new"),
    [
        ("point", {"w": [[]], "b": [0]}), ("point", None), ("multipliers", {"rows": {}}),
        (("claim", "value"), "0x1p999999999"), (("claim", "value"), "1/0"), (("claim", "value"), 1.5),
        (("claim", "value"), "9" * 5000), (("claim", "value"), "NaN"), (("claim", "gap"), True),
        (("claim", "value"), "0x1p1000000000000"), (("data", "rows"), [[0, 10**30]]),
        (("data", "rows"), [[0, 26]] * 10_000), (("data", "rows"), [0, 26]), (("data", "rows"), [["0", 26]]),
        (("data", "features"), 10**12), (("data", "features"), -1), (("data", "factor"), "1/3"),
        (("program", "faces"), 10**9), (("program", "faces"), 0), (("program", "rows"), [{}] * 30),
        (("program", "rows"), [[]]), (("program", "features"), {"kind": "kernel"}),
        (("program", "features"), {"kind": "rbf", "gamma": "1/" + "7" * 4000}),
        (("program", "size"), {"kind": "square", "factor": -1}),
        (("multipliers", "rows"), {"margin": [[[]]]}),
        (("multipliers", "rows"), {"margin": [{"at": [0, 0], "is": [1, 1]}]}),
        (("multipliers", "rows"), {"margin": [[f"1/{10**900 + k}" for k in range(26)]]}),
    ],
)  # fmt: skip
def test_a_hostile_field_ends_in_a_sentence(place, new, saved, tmp_path, capsys):
    found = json.loads(saved["svm"][0].read_text())
    holder, path = found["claims"][0], (place,) if isinstance(place, str) else place
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    (tmp_path / "bad.json").write_text(json.dumps(found))
    status, said = verdict(tmp_path / "bad.json", saved["svm"][1], capsys)
    assert status == 1
    assert said.splitlines()[-1].startswith("Refused: ")


def test_the_checker_shares_nothing_with_polyopt():
    nodes = ast.walk(ast.parse(CHECKER.read_text(encoding="utf-8")))
    names = {n.module if isinstance(n, ast.ImportFrom) else a.name for n in nodes
             if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}  # fmt: skip
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_exp_and_ln_are_enclosed():
    draw = random.Random(3)
    with mpmath.workdps(60):
        unit = mpmath.mpf(2) ** -128
        for _ in range(150):
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
def test_a_numeral_is_the_number(value):
    assert checker.number(numeral(value)) == number(numeral(value)) == Fraction(value)


def test_a_point_that_breaks_hard_rows_is_scaled_to_them(data, tmp_path, capsys):
    X, _ = data
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    X = X + signs[:, None] * [1.0, 0.0, 0.0]
    certificate = polyopt.certify_svm(X, signs, np.inf, w=[0.9, 0.0, 0.0], b=0.0)
    certificate.save(tmp_path / "c.json", data=tmp_path / "c.svm")
    status, said = verdict(tmp_path / "c.json", tmp_path / "c.svm", capsys)
    assert status == 0, said


def test_multipliers_that_prove_less_than_none_are_left_out(data):
    """Of samples a thousand times as large each pulls too hard; the files of large sets have no others."""
    X, y = data
    signs = np.where(y == "in", 1.0, -1.0)
    program = HingeProgram("it", LinearGeometry(1e3 * X, centred=True), hinge_families(signs, 0.1))
    found = claim_of(state_hinge(program, np.zeros(3), 0.0, np.full((1, 26), 0.1)))
    assert number(found["claim"]["bound"]) == 0
    assert not any(checker.vector(found["multipliers"]["rows"]["margin"][0], 26))
