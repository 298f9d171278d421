"""What strangers do to the commands: odd tables and options, pipes, full disks, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from helpers.commands import run, small_table, worked

from polyopt.cli.data import Form, load_data
from polyopt.compare.data import prepare, scaler_for
from polyopt.datasets import Dataset
from polyopt.report import comparison

FAST = ("--method", "svm", "--solver", "fast", "--quiet")


def write(path, *rows, separator=","):
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    return done.stderr.strip()


def mixed(path, *, gaps=False):
    """A table of a number and a text, with two classes."""
    rows = [["" if gaps and k % 5 == 0 else k * (-1) ** k, "rgb"[k % 3], "io"[k % 2]] for k in range(20)]
    return write(path, ["size", "colour", "kind"], *rows)


# -- tables -----------------------------------------------------------------------------------------


def test_a_header_of_numbers_is_not_taken_for_data(tmp_path):
    whole = write(tmp_path / "n.csv", [2019, 2020, "y"], [1, 2, 0], [3, 4, 1])
    assert "line 1: the label 'y' is the only one that is no number" in refused("fit", whole, *FAST)
    assert load_data(str(whole), "y").y.tolist() == [0, 1]
    words = write(tmp_path / "w.csv", [2019, 2020, "kind"], *[[k, -k, "io"[k % 2]] for k in range(8)])
    with pytest.warns(UserWarning, match="line 1: no other line has the label 'kind'"):
        assert len(load_data(str(words)).y) == 9


def test_a_first_row_of_texts_whose_label_comes_again_is_not_taken_for_a_header(tmp_path):
    path = write(tmp_path / "t.csv", ["x", "u", "no"], ["w", "v", "yes"], ["x", "v", "no"])
    assert "line 1: was taken for a header" in refused("fit", path, "--categorical", "all", *FAST)
    named = write(tmp_path / "y.csv", ["a", "b", "y"], [1, 2, "y"], [3, 4, "n"])  # a name may be a label
    assert load_data(str(named)).y.tolist() == ["y", "n"]


@pytest.mark.parametrize("gap", ["N/A", "#N/A", "<NA>", "null", "NULL", "n/a"])
def test_gaps_in_the_words_of_other_programs(tmp_path, gap):
    path = write(tmp_path / "t.csv", ["a", "b", "y"], [gap, 1, 0], [2, 3, 1], [4, 5, 0])
    assert np.isnan(load_data(str(path), form=Form(impute="median")).X[0, 0])
    assert "missing values in 1 row (line 2)" in refused("fit", path, *FAST)


@pytest.mark.parametrize("cell", ["-", "none", "missing", r"\N"])
def test_other_words_for_a_gap_are_told_how_it_is_written(tmp_path, cell):
    path = write(tmp_path / "t.csv", ["a", "b", "y"], [1, cell, 0], [2, 3, 1], [4, 5, 0])
    assert "a missing value is an empty cell, NA, N/A" in refused("fit", path, "--impute", "median", *FAST)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b,y\n1,2,é\n".encode("utf-16"), "is not UTF-8 text but UTF-16; save it as UTF-8"),
        ("a,b,y\n1,2,é\n".encode("utf-32"), "is not UTF-8 text but UTF-32; save it as UTF-8"),
        ("a,b,y\n1,2,é\n".encode("latin-1"), "line 2: is not UTF-8 text; save it with that encoding"),
        (b"PK\x03\x04\xff\xfe", "a zip archive or a workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "a workbook; save the sheet as CSV"),
        (b"\x28\xb5\x2f\xfd\xff", "compressed by zstd"),
        (b"a,b,y,\n1,2,0,\n", "column 4 has no name (a separator at the end of the line?)"),
        (b"a,b,y\n1\n", "has 1 cell where 3 are expected"),
        (b"a,b,y\n1,inf,0\n", "line 2: column 'b': 'inf' is not finite\n"),
        (b"a,b,y\n1," + b"9" * 5000 + b",0\n", "9'... is too large for a float\n"),
    ],
)  # fmt: skip
def test_what_a_file_is_instead_is_told(tmp_path, content, said):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert said in refused("fit", path, *FAST) + "\n"


@pytest.mark.parametrize("digits", [101, 5000])
def test_numbers_of_thousands_of_digits_are_texts(tmp_path, digits):
    labels = ["1" * digits, "2" * digits]
    path = write(tmp_path / "t.csv", ["a", "b", "y"], *[[k, -k, labels[k % 2]] for k in range(4)])
    assert load_data(str(path)).y.tolist() == labels * 2
    assert "is not a column" in refused("fit", path, "--target", "1" * digits)
    index = tmp_path / "t.svm"
    index.write_text(f"1 1:1\n-1 {'9' * digits}:1\n")
    assert "line 2: index 999" in refused("fit", index, *FAST)


def test_svmlight_labels_with_a_fraction_are_classes(tmp_path):
    path, model = tmp_path / "t.svm", tmp_path / "m.skops"
    path.write_text("".join(f"{(1.5, 2.25)[k % 2]} 1:{k % 2 + k / 50:g} 2:{k}\n" for k in range(12)))
    worked("fit", path, *FAST, "--out", model)
    done = run("predict", model, path)
    assert set(done.stdout.split()) == {"1.5", "2.25"}
    assert "error 0.00 % (0 of 12 samples)" in done.stderr


@pytest.mark.parametrize("line", ["1 qid:3 1:2\n", "1 -1:2\n"])
def test_broken_svmlight_lines_are_known_for_what_they_are(tmp_path, line):
    path = tmp_path / "t.txt"
    path.write_text(line)
    assert "line 1: query ids" in (told := refused("fit", path, *FAST)) or "indices start at 1" in told


@pytest.mark.parametrize(
    ("option", "value"),
    [("--target", "0"), ("--separator", "tab"), ("--decimal", ","), ("--impute", "median")],
)
def test_options_of_tables_are_refused_elsewhere(tmp_path, option, value):
    path = tmp_path / "t.svm"
    path.write_text("1 1:1\n-1 1:2\n")
    for data in ("ionosphere", path):
        assert f"{option} is for CSV files; {data} is" in refused("fit", data, option, value)


# -- scales -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_feature_whose_variance_is_no_number_is_named(scale, is_sparse):
    from scipy.sparse import csr_matrix

    X = np.array([[1.0, 1.0], [2.0, 5.0], [4.0, 3.0]]) * [1.0, scale]
    with pytest.raises(ValueError, match=r"feature 'big' goes from .* multiply it by a constant"):
        scaler_for(csr_matrix(X) if is_sparse else X, ["small", "big"])
    with pytest.raises(ValueError, match="feature 2 goes"):
        scaler_for(X)
    assert np.isfinite(scaler_for(X * [1.0, 0.0]).transform(X * [1.0, 0.0])).all()  # constants are fine


def test_features_that_would_fill_the_memory_are_refused_by_the_interior_point(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("1 1:1 50000:2\n-1 2:1\n1 1:2\n-1 2:2 50000:-1\n")
    assert "50000 features need matrices of 20 GB" in refused("fit", path, *FAST)
    worked("fit", path, "--method", "svm", "--quiet")


def test_a_cost_near_zero_is_no_division_by_zero(tmp_path):
    assert "training error" in worked("fit", small_table(tmp_path), *FAST, "--C", "1e-300")


@pytest.mark.parametrize(("n_classes", "n_samples", "least"), [(2, 4, 5), (30, 60, 117)])
def test_too_few_samples_for_a_test_part_are_counted(n_classes, n_samples, least):
    X, y = np.arange(2.0 * n_samples).reshape(n_samples, 2), np.arange(n_samples) % n_classes
    with pytest.raises(ValueError, match=f"{n_samples} samples of {n_classes} classes; {least} are needed"):
        prepare(Dataset("few", X, y, target_names=tuple(map(str, range(n_classes)))))
    y = np.arange(least) % n_classes
    if np.unique(y, return_counts=True)[1].min() > 1:
        prepare(Dataset("enough", np.arange(2.0 * least).reshape(least, 2), y, target_names=()))


# -- models that read new tables ----------------------------------------------------------------------


def test_texts_that_the_fit_did_not_see_are_told(tmp_path):
    model = tmp_path / "m.skops"
    worked("fit", mixed(tmp_path / "t.csv"), "--categorical", "colour", *FAST, "--out", model)
    done = run("predict", model, write(tmp_path / "new.csv", ["size", "colour"], [1, "R"], [2, "g"]))
    assert "column 'colour': the model has not seen 'R', and counts it as no text" in done.stderr
    assert "has not seen" not in run("predict", model, tmp_path / "t.csv").stderr


def test_a_column_with_the_name_of_an_output_is_refused_by_onnx(tmp_path):
    pytest.importorskip("onnx")
    rows = [[k, "rgb"[k % 3], "io"[k % 2]] for k in range(12)]
    path, model = write(tmp_path / "t.csv", ["label", "colour", "y"], *rows), tmp_path / "m.skops"
    worked("fit", path, "--categorical", "colour", *FAST, "--out", model)
    told = refused("export", model, "--out", tmp_path / "m.onnx")
    assert "the column 'label' has the name of an output" in told
    assert not (tmp_path / "m.onnx").exists()


def test_damaged_and_odd_model_files(tmp_path):
    import json

    import skops.io

    table, model = small_table(tmp_path), tmp_path / "m.skops"
    worked("fit", table, *FAST, "--out", model)
    whole = model.read_bytes()
    content = skops.io.loads(whole, trusted=sorted(skops.io.get_untrusted_types(data=whole)))
    for name, value in {"claim": 5, "settings": [], "versions": "x", "status": 7, "data": 3}.items():
        facts = json.loads(content["about"])
        facts["facts"][name] = value
        model.write_bytes(skops.io.dumps(content | {"about": json.dumps(facts)}))
        assert "its parts are not those of a model" in refused("info", model)
    model.write_bytes(whole[:-30])
    assert "is damaged: its end is missing" in refused("info", model)
    assert "is a pipe or a device" in refused("info", os.devnull)


# -- terminals, pipes, disks and signals --------------------------------------------------------------


def test_what_is_printed_is_not_mixed_with_a_file_on_standard_output(tmp_path):
    table = small_table(tmp_path)
    for command in (("fit", table, "--out"), ("compare", "--data", table, "--report")):
        assert f"{command[-1]}: standard output has what is printed" in refused(*command, "-")


def test_without_onnx_no_graph_is_written_and_what_to_install_is_said(tmp_path, monkeypatch):
    table, model = small_table(tmp_path), tmp_path / "m.skops"
    worked("fit", table, *FAST, "--out", model)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "polyopt[onnx]" in refused("export", model, "--out", tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_ctrl_c_while_the_command_starts_ends_in_a_sentence():
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'polyopt.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from polyopt.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted: nothing was written\n")


def test_ctrl_c_during_the_pictures_writes_no_page(monkeypatch, tmp_path):
    target = tmp_path / "r.html"
    target.write_text("old")

    def stopped(*_):
        signal.raise_signal(signal.SIGINT)
        return []

    monkeypatch.setattr(comparison, "pictures_of", stopped)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = run("compare", "--data", small_table(tmp_path), "--methods", "svm", "--report", target, "-q")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.exit_code, target.read_text()) == (130, "old")
    assert f"interrupted: the comparison is printed, but not written to {target}" in done.stderr
