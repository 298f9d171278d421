"""The checker as its user meets it: types of a claim, data files, bounds on the work, and output."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import polyopt
from polyopt.check import check as checker
from polyopt.datasets import read_csv

_FEW: dict[str, Any] = {"n_faces": 2, "solver": "exact", "n_init": 1, "random_state": 0}
_ONE: dict[str, Any] = {"n_faces": 2, "n_init": 1, "random_state": 0}
_CPM = polyopt.ConvexPolytopeMachine
MACHINES: dict[str, Any] = {
    "svm": polyopt.SVM(C=0.7, kernel="linear"),
    "pairs": polyopt.SVM(kernel="linear"),
    "rmm": polyopt.RelativeMarginMachine(C=2.0, B=1.6, kernel="linear"),
    "sigma": polyopt.SigmaSVM(C=1.0, D=0.4, kernel="linear"),
    "poly": polyopt.SVM(C=1.0, kernel="poly", degree=2, coef0=1.0),
    "rbf": polyopt.RelativeMarginMachine(C=1.0, B=1.3, kernel="rbf"),
    "expansion": polyopt.OneNormSVM(C=1.0, kernel="rbf"),
    "cpm": _CPM(penalty=polyopt.FacePenalty(l1=0.3, signs=[1, 0]), **_FEW),
    "worst": _CPM(penalty=polyopt.FacePenalty(margin="worst"), loss="max", **_FEW),
    "tree": _CPM(n_faces=2, C=0.5, solver="global", time_limit=2, random_state=0),
    "l0": polyopt.CrossEntropySVM(C=1.0, kernel="rbf", solver="global", time_limit=2),
    "polyceptron": polyopt.Polyceptron(solver="highs", **_ONE),
    "spla1": polyopt.SPLA1(**_ONE),
    "plume": polyopt.PLUME(gamma=0.7, **_ONE),
    "logistic": polyopt.LogisticPolytopes(n_faces=(1, 2), n_init=1, random_state=0),
    "ray": None,
}


@cache
def claims_of(name: str) -> tuple[dict[str, Any], bytes]:
    """A file of claims about 12 samples by one of the machines, and its data in the svmlight format."""
    rng = np.random.default_rng(7)
    n = 15 if name == "pairs" else 8 if name in ("tree", "l0") else 12
    X = rng.normal(size=(n, 2)).round(3)
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.8 * rng.normal(size=n) > 0.6, 1, -1)
    y[:2] = 1, -1
    if name == "pairs":
        y = np.repeat([3, 1, 2], 5)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        claim, data = Path(folder) / "c.json", Path(folder) / "c.svm"
        if name == "ray":
            line, y = np.array([[0.0], [1.0], [0.25], [2.0]]), np.array([1, -1, -1, 1])
            found = polyopt.certify_svm(line, y, np.inf, alpha=[0.875, 0.0, 1.0, 0.125])
        else:
            found = MACHINES[name].fit(X, y).certificate()
        if name == "pairs":
            found.save(claim)
            rows = (
                f"{label} 1:{a!r} 2:{b!r}\n" for label, (a, b) in zip(y.tolist(), X.tolist(), strict=True)
            )
            data.write_text("".join(rows), encoding="ascii")
        else:
            found.save(claim, data=data)
        return json.loads(claim.read_text(encoding="ascii")), data.read_bytes()


def said_of(told, data, tmp_path, capsys, name="data.svm"):
    """Exit status and lines of the checker; told is a dict, or the text of the file."""
    (tmp_path / "c.json").write_text(told if isinstance(told, str) else json.dumps(told))
    (tmp_path / name).write_bytes(data)
    capsys.readouterr()
    status = checker.main([str(tmp_path / "c.json"), str(tmp_path / name)])
    return status, capsys.readouterr().out.splitlines()


def refusal(*arguments, **named):
    status, lines = said_of(*arguments, **named)
    assert status == 1
    assert lines[-1].startswith("Refused: ")
    assert sum(line.startswith("Refused: ") for line in lines) == 1
    return lines[-1]


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


def test_a_claim_by_hand_is_proven(tmp_path, capsys):
    """The claim that the tests below break is true, and accepted."""
    status, lines = said_of(file_of(least_squares([{"side": 1}], 3)), TWO_ROWS, tmp_path, capsys)
    assert (status, lines[-1]) == (0, "Every step holds.")


def test_a_row_in_floats_does_not_hide_a_violation(tmp_path, capsys):
    """w = 2^60 breaks w >= 2^60 + 1, also where a side of 1.0 would compare them as floats."""
    claim = least_squares([{"side": 1}, {"side": 1, "kink": 2**60 + 1}], 2**60)
    claim["claim"] |= {"value": str(2**120), "bound": str(2**120)}
    claim["multipliers"]["rows"]["row 0"] = [[2**61, 0]]
    assert "breaks the row 'row 1'" in refusal(file_of(claim), TWO_ROWS, tmp_path, capsys)
    claim["program"]["rows"][1]["side"] = 1.0
    assert "1.0" in refusal(file_of(claim), TWO_ROWS, tmp_path, capsys)
    with pytest.raises(checker.Refused, match=r"1\.0"):
        checker.check(claim, str(tmp_path / "data.svm"), lambda step: None)


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


@pytest.mark.parametrize("value", [1.5, 1.0, True, False, None, {}, {"at": 0}, b""], ids=repr)
@pytest.mark.parametrize("name", ["svm", "logistic", "worst", "sigma", "expansion"])
def test_no_place_takes_a_value_of_another_type(name, value, tmp_path):
    """Floats, nulls, booleans and other containers are refused at every place of a claim, by type."""
    (claim,), data = claims_of(name)[0]["claims"], tmp_path / "data.svm"
    data.write_bytes(claims_of(name)[1])
    for path in places(claim):
        wrong = changed(claim, path, value)
        if wrong == claim and repr(wrong) == repr(claim):
            continue
        if path == ("program", "intercept") and type(value) is bool:
            continue
        with pytest.raises(checker.Refused):
            checker.check(wrong, str(data), lambda step: None)


@pytest.mark.parametrize("name", MACHINES)
def test_no_object_takes_an_unknown_field(name, tmp_path):
    """A field that FORMAT.md does not have is refused in every object."""
    told, data = claims_of(name)[0], tmp_path / "data.svm"
    data.write_bytes(claims_of(name)[1])
    for path in [(), *places(told["claims"][0])]:
        for field in ("surplus", "at?", "str"):
            claim = copy.deepcopy(told["claims"][0])
            holder = claim
            for key in path:
                holder = holder[key]
            if isinstance(holder, dict) and path[-2:-1] != ("multipliers",) and path[-1:] != ("rows",):
                holder[field] = "all"
                with pytest.raises(checker.Refused, match="FORMAT"):
                    checker.check(claim, str(data), lambda step: None)


def test_fields_twice_are_refused_in_every_object():
    """An object with a field twice has no meaning, wherever it stands."""
    text = json.dumps(claims_of("cpm")[0])
    for field in (
        '"format"',
        '"title"',
        '"sha256"',
        '"-1"',
        '"name"',
        '"w"',
        '"margin"',
        '"gap"',
        '"factor"',
    ):
        at = text.index(f"{field}: ")
        with pytest.raises(checker.Refused, match="stands twice"):
            json.loads(f"{text[:at]}{field}: 0, {text[at:]}", object_pairs_hook=checker.Fields)


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
def test_a_table_is_read_as_polyopt_reads_it(name, tmp_path):
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
def test_a_broken_table_is_refused(text, tmp_path):
    """Short and long rows, empty cells, and texts for numbers: nothing is filled or skipped."""
    (tmp_path / "d.csv").write_text(text)
    layout = {"separator": ",", "header": True, "target": 0}
    with pytest.raises((checker.Refused, checker.csv.Error)):
        list(checker.from_table(str(tmp_path / "d.csv"), layout))


def test_svmlight_is_read_as_scikit_learn_reads_it(tmp_path):
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
def test_a_broken_line_of_svmlight_is_refused(line, tmp_path, capsys):
    """Also where the claim is not about that sample."""
    told = file_of(least_squares([{"side": 1}], 3))
    said = refusal(told, TWO_ROWS + line + b"\n", tmp_path, capsys)
    assert "broken" not in said


def hostile():
    """Claims that take little room and would take hours, or gigabytes."""
    one = least_squares([{"side": 1}], 3)
    poly = {
        "kind": "poly",
        "gamma": f"1/{2**2000 + 1}",
        "coef0": str(2**9000),
        "degree": 20,
    }
    kernel = {**one["program"], "features": poly, "size": {"kind": "kernel", "factor": 1}}
    yield "powers of long numbers", one | {"program": kernel, "point": {"w": [[1, 1]]}}
    yield "long numbers", one | {"point": {"w": ["9" * 4001]}}
    yield "long fractions", one | {"point": {"w": [f"1/{10**3999 + 7}"]}, "multipliers": {
        "rows": {"row 0": [[f"1/{10**3998 + 3}", 0]]}}}  # fmt: skip
    yield "features", changed(one, ("data", "features"), 10**9)
    many = least_squares([{"side": 1, "name": f"r{k}"} for k in range(40)], 3, faces=3_000, repeated=300)
    yield "faces by families by samples", many
    deep = {}
    for _ in range(420):
        deep = {"weight": 0, "ways": [deep, {}]}
    yield "levels", one | {"multipliers": deep}


@pytest.mark.parametrize(("name", "claim"), [pytest.param(*case, id=case[0]) for case in hostile()])
def test_work_that_would_not_end_is_refused(name, claim, tmp_path):
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
def test_names_are_quoted_and_cut(name, tmp_path, capsys):
    """Of a title, a family or a label no line of its own can be made, on any terminal."""
    true = least_squares([{"side": 1}], 3)
    status, lines = said_of(file_of(true | {"title": name}), TWO_ROWS, tmp_path, capsys)
    assert status == 0
    wrong = least_squares([{"side": 1}, {"side": 1, "name": name, "kink": 4}], 3)
    line = refusal(file_of(wrong), TWO_ROWS, tmp_path, capsys)
    for said in (*lines, line):
        assert said.isascii()
        assert said.isprintable()
        assert len(said) < 300
    assert lines.count("Every step holds.") == 1


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1252", "utf-16"])
def test_any_terminal_can_print_what_it_says(encoding, tmp_path):
    """Exit status 0 and nothing on the error stream, also where the title and the path are not ASCII."""
    claim, data = tmp_path / "\u00e9.json", tmp_path / "\u6f22.svm"
    claim.write_text(json.dumps(file_of(least_squares([{"side": 1}], 3) | {"title": "\u00e9\ud800"})))
    data.write_bytes(TWO_ROWS)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": encoding}
    for path, status in ((data, 0), (tmp_path / "no \u00e9\n", 1)):
        command = [sys.executable, checker.__file__, str(claim), str(path)]
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (status, b"")
        assert (
            done.stdout.decode(encoding)
            .splitlines()[-1]
            .startswith(("Every step holds.", "Refused: ")[status])
        )


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


def test_what_is_printed_is_not_better_than_what_is_proven(tmp_path, capsys):
    """Values are rounded up and bounds down."""
    claim = least_squares([{"side": 1}], 3)
    claim["claim"] |= {
        "value": f"{9 * 10**30 + 1}/{10**30}",
        "bound": f"{9 * 10**30 - 1}/{10**30}",
        "gap": f"3/{10**30}",
    }
    status, lines = said_of(file_of(claim), TWO_ROWS, tmp_path, capsys)
    assert status == 0
    assert "at most 9.000000000000002," in lines[3]
    assert "prove 8.999999999999998," in lines[4]


def test_no_claim_is_proven_without_time(tmp_path):
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
    (tmp_path / "c.json").write_text('{"claims": [' + "[]," * 21_000_000 + "[]]}")
    said = as_a_program(tmp_path / "c.json", tmp_path / "d.svm")
    assert said == (1, "Refused: this cannot be read: MemoryError, ''")


def test_another_version_is_refused_by_its_number(tmp_path, capsys):
    """Files of versions 1 and 2 are to be saved anew."""
    for version in (1, 2, 4):
        told = file_of(least_squares([{"side": 1}], 3)) | {"version": version}
        assert f"its version is {version}" in refusal(told, TWO_ROWS, tmp_path, capsys)


def test_a_norm_needs_a_semidefinite_kernel(tmp_path, capsys):
    """With coef0 < 0, w'Kw may be negative, and no conjugate is a bound."""
    (claim,), data = claims_of("poly")[0]["claims"], claims_of("poly")[1]
    wrong = changed(claim, ("program", "features", "coef0"), -1)
    assert "semidefinite" in refusal(file_of(wrong), data, tmp_path, capsys)
    wrong = changed(claim, ("program", "features"), {"kind": "plain"})
    wrong["point"]["w"] = 0
    assert "semidefinite" in refusal(file_of(wrong), data, tmp_path, capsys)


def test_squares_are_of_centred_scores_alone(tmp_path, capsys):
    """Multipliers of a variance are balanced by themselves, and its loss is not of a largest score."""
    (claim,), data = claims_of("sigma")[0]["claims"], claims_of("sigma")[1]
    multipliers = claim["multipliers"]["rows"]["variance"][0]
    wrong = changed(claim, ("multipliers", "rows", "variance", 0, 0), 1)
    assert multipliers[0] != 1
    assert "not in balance" in refusal(file_of(wrong), data, tmp_path, capsys)
    for field, value in (("pays", "worst"), ("less", 0), ("cap", "inf"), ("at", "one")):
        wrong = changed(claim, ("program", "rows", 1, field), value)
        assert "'variance'" in refusal(file_of(wrong), data, tmp_path, capsys)
