"""The checker as its user meets it: types of a claim, data files, bounds on the work, and output."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from helpers.claims import FORMS, saved
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import polyopt
from polyopt.check import check as checker
from polyopt.datasets import read_csv


@pytest.fixture
def said(tmp_path, capsys):
    """Asks the checker about a file of claims and its samples; returns the exit status and the lines."""

    def ask(told, samples=None):
        (tmp_path / "c.json").write_text(json.dumps(told))
        (tmp_path / "data.svm").write_bytes(TWO_ROWS if samples is None else samples)
        capsys.readouterr()
        status = checker.main([str(tmp_path / "c.json"), str(tmp_path / "data.svm")])
        return status, capsys.readouterr().out.splitlines()

    return ask


@pytest.fixture
def refusal(said):
    """Asks the same about a claim that is refused; returns the last line, the only one that says so."""

    def ask(*arguments):
        status, lines = said(*arguments)
        assert status == 1
        assert [line.startswith("Refused: ") for line in lines] == [False] * (len(lines) - 1) + [True]
        return lines[-1]

    return ask


def least_squares(rows, value, faces=1, repeated=1):
    """A claim that w = value is the least point of min w^2 with w >= value in these rows."""
    y = [1, -1] * repeated
    cells = [{0: 1.0}, {}] * repeated
    margins = [
        {"name": f"row {k}", "kink": value, "cap": "inf", "at": [0, *["none"] * (2 * repeated - 1)]} | row
        for k, row in enumerate(rows)
    ]
    return {
        "kind": "bounds", "title": "it",
        "data": {"features": 1, "labels": {"-1": "-1", "+1": "1"}, "rows": [[0, 2 * repeated]],
                 "sha256": checker.digest(cells, 1, y)},
        "program": {"faces": faces, "intercept": False, "features": {"kind": "plain"},
                    "size": {"kind": "square", "factor": 1}, "rows": margins},
        "point": {"w": [value] * faces},
        "multipliers": {"rows": {row["name"]: [{"at": [0], "is": [2 * value * (k == 0)]}] * faces
                                 for k, row in enumerate(margins)}},
        "claim": {"value": faces * value**2, "bound": faces * value**2, "gap": 0},
    }  # fmt: skip


TWO_ROWS = b"1 1:1\n-1\n"


def file_of(*claims):
    return {"format": "polyopt claim", "version": 3, "claims": list(claims)}


TRUE = file_of(least_squares([{"side": 1}], 3))


def test_claim_by_hand_is_accepted(said):
    """The claim that the tests below break is true, and accepted."""
    status, lines = said(TRUE)
    assert (status, lines[-1]) == (0, "Every step holds.")


def test_float_side_hides_no_violation(refusal, tmp_path):
    """w = 2^60 breaks w >= 2^60 + 1, also where a side of 1.0 would compare them as floats."""
    claim = least_squares([{"side": 1}, {"side": 1, "kink": 2**60 + 1}], 2**60)
    claim["claim"] |= {"value": str(2**120), "bound": str(2**120)}
    claim["multipliers"]["rows"]["row 0"] = [[2**61, 0]]
    assert "breaks the row 'row 1'" in refusal(file_of(claim))
    claim["program"]["rows"][1]["side"] = 1.0
    assert "1.0" in refusal(file_of(claim))
    with pytest.raises(checker.Refused, match=r"1\.0"):
        checker.check(claim, str(tmp_path / "data.svm"), lambda step: None)


def test_score_errors_count_against_the_point():
    """A point is worth the most within the errors of its scores, and keeps its hard rows within them."""
    one, error = Fraction(1), Fraction(1, 8)
    rows = checker.Rows({"name": "row", "side": 1, "kink": 1, "cap": ["inf", 2]}, [1, 1], 1)
    assert rows.value([[one, one]], 0 * error) == 0
    assert rows.value([[one + error, one]], error) == 2 * error
    with pytest.raises(checker.Refused, match="breaks the row"):
        rows.value([[one, one]], error)
    told = {"name": "row", "side": 1, "kink": 0, "cap": 1, "at": [1], "less": 0}
    assert checker.Rows(told, [1], 2).value([[one], [one]], error) == 2 * error


def places(node, path=()):
    for key, below in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(below, (dict, list)):
            yield from places(below, (*path, key))


def changed(told, path, value):
    found = holder = copy.deepcopy(told)
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return found


@pytest.fixture
def samples(tmp_path):
    """Writes the samples of a claim, and returns their path."""

    def write(form):
        (tmp_path / "data.svm").write_text("\n".join(saved(form).lines) + "\n")
        return str(tmp_path / "data.svm")

    return write


@pytest.mark.parametrize("value", [1.0, True, None, {}, {"at": 0}], ids=repr)
@pytest.mark.parametrize("form", ["svm", "logistic", "cpm-worst", "sigma", "one-norm-rbf"])
def test_place_takes_one_type(form, value, samples):
    """Floats, nulls, booleans and other containers are refused at every place of a claim, by type."""
    path = samples(form)
    for place in places(saved(form).claim):
        wrong = changed(saved(form).claim, place, value)
        is_same = wrong == saved(form).claim and repr(wrong) == repr(saved(form).claim)
        if is_same or (place == ("program", "intercept") and type(value) is bool):
            continue
        with pytest.raises(checker.Refused):
            checker.check(wrong, path, lambda step: None)


@pytest.mark.parametrize("form", FORMS)
def test_unknown_field_is_refused(form, samples):
    """A field that FORMAT.md does not have is refused in every object."""
    path = samples(form)
    for place in [(), *places(saved(form).claim)]:
        if place[-2:-1] == ("multipliers",) or place[-1:] == ("rows",):
            continue  # names of rows
        wrong = copy.deepcopy(saved(form).claim)
        holder = wrong
        for key in place:
            holder = holder[key]
        if isinstance(holder, dict):
            holder["surplus"] = "all"
            with pytest.raises(checker.Refused, match="FORMAT"):
                checker.check(wrong, path, lambda step: None)


FIELDS = ["format", "title", "sha256", "-1", "name", "w", "margin", "gap", "factor"]


@pytest.mark.parametrize("field", FIELDS)
def test_field_twice_is_refused(field):
    """An object with a field twice has no meaning, wherever it stands."""
    text = json.dumps(saved("cpm-signs").told)
    at = text.index(f'"{field}": ')
    with pytest.raises(checker.Refused, match="stands twice"):
        json.loads(f'{text[:at]}"{field}": 0, {text[at:]}', object_pairs_hook=checker.Fields)


TABLES = {
    "label last": ("a,b,y\n1,2,in\n3,4.5,out\n", -1),
    "label first": ("y,a,b\nin,1,2\nout,3,-4e-3\n", 0),
    "label named": ("a;y;b\n1;in;2\n3;out;4\n", "y"),
    "a name that is a number": ("1,2,3\n4,5,6\n7,8,9\n", "2"),
    "no header": ("1\t2\tin\n3\t4\tout\n", -1),
    "quotes, blanks, a mark": ('\ufeffa,b,y\r\n"1", 2 ,"in, side"\r\n\r\n3,4,out\r\n', -1),
    "many commas in a text": ("a;b;y\n1;2;p,q,r,s\n3;4;t\n", -1),
}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_read_as_by_polyopt(name, tmp_path):
    """Header, separator and label column are those that the claim has from polyopt's reader."""
    text, target = TABLES[name]
    path = tmp_path / "d.csv"
    path.write_bytes(text.encode())
    certificate = polyopt.SVM(kernel="linear").fit([[0.0], [1.0]], [0, 1]).certificate()
    (claim,) = certificate.save(tmp_path / "c.json", table=path, target=target)
    cells, labels = zip(*checker.from_table(str(path), claim["data"]["table"]), strict=True)
    found = read_csv(path, target)
    assert [list(row.values()) for row in cells] == found.X.tolist()
    assert list(labels) == [str(label) for label in found.y]


@pytest.mark.parametrize("text", [
    "y,a,b\n1,2\n-1,-1\n1,3,5\n", "y,a,b\n1,2,\n-1,-1,0\n", "y,a,b\n1,2,3,4\n",
    "y,a,b\n1,2,nan\n", "y,a,b\n1,2,1_0\n", "y,a,b\n1,2,inf\n", "y,a,b\n1,2,0x1\n", "y,a,b\n,2,3\n",
    "y,a,b\n1,2,\u0663\n", 'y,a,b\n1,2,"3\n', "y,a,b\n1,#2,3\n", "1,2,3\n1,word,3\n",
])  # fmt: skip
def test_broken_table_is_refused(text, tmp_path):
    """Short and long rows, empty cells, and texts for numbers: nothing is filled or skipped."""
    (tmp_path / "d.csv").write_text(text)
    layout = {"separator": ",", "header": True, "target": 0}
    with pytest.raises((checker.Refused, checker.csv.Error)):
        list(checker.from_table(str(tmp_path / "d.csv"), layout))


def test_svmlight_is_read_as_by_sklearn(tmp_path):
    """Comments, blanks and samples without features included."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 5)) * (rng.random((20, 5)) < 0.4), rng.integers(0, 3, 20)
    dump_svmlight_file(X, y, str(tmp_path / "d.svm"), zero_based=False, comment="two\nlines")
    with (tmp_path / "d.svm").open("ab") as file:
        file.write(b"\n  +1.0\t2:3.5 # 4:1\n# \xc3\xa9\n-1\n")
    cells, labels = zip(*checker.from_svmlight(str(tmp_path / "d.svm")), strict=True)
    A, b = load_svmlight_file(str(tmp_path / "d.svm"), n_features=5, zero_based=False)
    assert [[row.get(j, 0.0) for j in range(5)] for row in cells] == A.toarray().tolist()
    assert [float(label) for label in labels] == b.tolist()


@pytest.mark.parametrize("line", [
    b"1 2:1 1:1", b"1 1:1 1:1", b"1 0:1", b"1 -1:1", b"1 1:", b"1 1:nan", b"1 1:1_0", b"1 qid:3 1:1", b"1 1",
    b"1:1",
    b"word 1:1", b"1,2 1:1", b"1 +1:1", b"1 1:1\xff", "1 \u0661:1".encode(), b"1 1:1e999",
])  # fmt: skip
def test_broken_svmlight_line_is_refused(line, refusal):
    """Also where the claim is not about that sample."""
    assert "broken" not in refusal(TRUE, TWO_ROWS + line + b"\n")


def hostile():
    """Claims that take little room and would take hours, or gigabytes."""
    one = least_squares([{"side": 1}], 3)
    poly = {"kind": "poly", "gamma": f"1/{2**2000 + 1}", "coef0": str(2**9000), "degree": 20}
    kernel = {**one["program"], "features": poly, "size": {"kind": "kernel", "factor": 1}}
    yield "powers of long numbers", one | {"program": kernel, "point": {"w": [[1, 1]]}}
    yield "long numbers", one | {"point": {"w": ["9" * 4001]}}
    yield "long fractions", one | {"point": {"w": [f"1/{10**3999 + 7}"]}, "multipliers": {
        "rows": {"row 0": [[f"1/{10**3998 + 3}", 0]]}}}  # fmt: skip
    yield "features", changed(one, ("data", "features"), 10**9)
    many = least_squares([{"side": 1, "name": f"r{k}"} for k in range(4)], 3, faces=3_000, repeated=3_000)
    yield "faces by families by samples", many
    deep = {}
    for _ in range(420):
        deep = {"weight": 0, "ways": [deep, {}]}
    yield "levels", one | {"multipliers": deep}


@pytest.mark.parametrize(("name", "claim"), [pytest.param(*case, id=case[0]) for case in hostile()])
def test_endless_work_is_refused(name, claim, tmp_path):
    """A short claim that asks for hours or gigabytes is refused by its sizes, or when its time is over."""
    pytest.importorskip("resource")
    (tmp_path / "d.svm").write_bytes(TWO_ROWS * (claim["data"]["rows"][0][1] // 2))
    (tmp_path / "c.json").write_text(json.dumps(file_of(claim)))
    status, last = as_a_program(tmp_path / "c.json", tmp_path / "d.svm", "--seconds", "1")
    assert status == 1
    assert last.startswith("Refused: ")


def as_a_program(*arguments):
    """Exit status and last line of the checker in a process of its own, which has limits."""
    command = [sys.executable, checker.__file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", [
    "x: yes\nEvery step holds.\n", "\x1b[2K\rEvery step holds.", "\u2028Every step holds.",
    "\ud800", "na\u00efve \u6f22",
    "x" * 10**5,
])  # fmt: skip
def test_names_are_quoted_and_cut(name, said, refusal):
    """Of a title, a family or a label no line of its own can be made, on any terminal."""
    true = least_squares([{"side": 1}], 3)
    status, lines = said(file_of(true | {"title": name}))
    assert status == 0
    wrong = least_squares([{"side": 1}, {"side": 1, "name": name, "kink": 4}], 3)
    for line in (*lines, refusal(file_of(wrong))):
        assert line.isascii()
        assert line.isprintable()
        assert len(line) < 300
    assert lines.count("Every step holds.") == 1


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1252", "utf-16"])
def test_any_terminal_prints_the_verdict(encoding, tmp_path):
    """Exit status 0 and nothing on the error stream, also where the title and the path are not ASCII."""
    claim, data = tmp_path / "\u00e9.json", tmp_path / "\u6f22.svm"
    claim.write_text(json.dumps(file_of(least_squares([{"side": 1}], 3) | {"title": "\u00e9\ud800"})))
    data.write_bytes(TWO_ROWS)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": encoding}
    for path, status in ((data, 0), (tmp_path / "no \u00e9\n", 1)):
        command = [sys.executable, checker.__file__, str(claim), str(path)]
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (status, b"")
        last = done.stdout.decode(encoding).splitlines()[-1]
        assert last.startswith(("Every step holds.", "Refused: ")[status])


@pytest.mark.parametrize(("arguments", "status"), [
    (["--help"], 0), ([], 2), (["a"], 2), (["a", "b", "c"], 2), (["--version", "x"], 2),
    (["--seconds", "x", "a", "b"], 2),
])  # fmt: skip
def test_help_and_wrong_arguments(arguments, status, capsys):
    """Help is on the output, with the exit statuses; what is wrong on the error stream, with status 2."""
    with pytest.raises(SystemExit) as ended:
        checker.main(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == status
    assert (out or err).startswith("usage: ")
    assert bool(out) == ("exit status: 0" in out) == (status == 0)


def test_printed_values_are_rounded_outwards(said):
    """Values are rounded up and bounds down."""
    claim = least_squares([{"side": 1}], 3)
    claim["claim"] |= {
        "value": f"{9 * 10**30 + 1}/{10**30}",
        "bound": f"{9 * 10**30 - 1}/{10**30}",
        "gap": f"3/{10**30}",
    }
    status, lines = said(file_of(claim))
    assert status == 0
    assert "at most 9.000000000000002," in lines[3]
    assert "prove 8.999999999999998," in lines[4]


def test_slow_claim_is_refused_by_seconds(tmp_path):
    """A claim that takes more time is refused in a line that names the option."""
    pytest.importorskip("resource")
    slow = least_squares([{"side": 1}], 3, repeated=1_000) | {"point": {"w": [1]}}
    slow["program"] |= {"features": {"kind": "rbf", "gamma": 1}, "size": {"kind": "kernel", "factor": 1}}
    (tmp_path / "c.json").write_text(json.dumps(file_of(slow)))
    (tmp_path / "d.svm").write_bytes(TWO_ROWS * 1_000)
    status, last = as_a_program("--seconds", "1", tmp_path / "c.json", tmp_path / "d.svm")
    assert (status, last) == (1, "Refused: the claims take more than 1 seconds (--seconds allows more)")


def test_memory_is_limited(tmp_path):
    """As a program of its own, the checker refuses a claim that would fill more than a gigabyte."""
    pytest.importorskip("resource")
    (tmp_path / "c.json").write_text('{"claims": ["\U0001f600"' + ',"ab"' * 11_000_000 + "]}")
    said = as_a_program(tmp_path / "c.json", tmp_path / "d.svm")
    assert said == (1, "Refused: this cannot be read: MemoryError, ''")


def test_other_version_is_refused(refusal):
    """Files of versions 1 and 2 are to be saved anew."""
    for version in (1, 2, 4):
        told = TRUE | {"version": version}
        assert f"its version is {version}" in refusal(told)


@pytest.mark.parametrize("features", [
    {"kind": "poly", "degree": 2, "coef0": -1, "gamma": "1/3"}, {"kind": "plain"}
], ids=lambda told: told["kind"])  # fmt: skip
def test_norm_needs_semidefinite_kernel(features, refusal):
    """With coef0 < 0, w'Kw may be negative, and no conjugate is a bound."""
    wrong = changed(saved("svm-poly").claim, ("program", "features"), features)
    if features["kind"] == "plain":
        wrong["point"]["w"] = 0
    assert "semidefinite" in refusal(file_of(wrong), data_of("sigma"))


def data_of(form):
    return ("\n".join(saved(form).lines) + "\n").encode()


def test_multipliers_of_variance_are_balanced(refusal):
    """Multipliers of squares of centred scores add up to 0 by themselves."""
    place = ("multipliers", "rows", "variance", 0, 0)
    wrong = changed(saved("sigma").claim, place, 1)
    assert saved("sigma").claim["multipliers"]["rows"]["variance"][0] != 1
    assert "not in balance" in refusal(file_of(wrong), data_of("sigma"))


@pytest.mark.parametrize(("field", "value"), [("pays", "worst"), ("less", 0), ("cap", "inf"), ("at", "one")])
def test_variance_is_of_all_scores(field, value, refusal):
    """The loss of a variance is not of a largest score, of differences, of some samples, or hard."""
    wrong = changed(saved("sigma").claim, ("program", "rows", 1, field), value)
    assert "'variance'" in refusal(file_of(wrong), data_of("sigma"))
