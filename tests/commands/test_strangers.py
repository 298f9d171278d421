"""What strangers do to the commands: options that do not fit, odd scales, damaged models, full disks."""

import json
import os

import numpy as np
import pytest
import skops.io
from helpers.commands import refused, run, small_table, worked, write
from scipy.sparse import csr_matrix

from polyopt.compare.data import prepare, scaler_for
from polyopt.datasets import Dataset

FAST = ("--method", "svm", "--solver", "fast", "--quiet")


def test_svmlight_labels_with_fraction_are_classes(tmp_path):
    """Labels 1.5 and 2.25 of an svmlight file are two classes, and come back."""
    path, model = tmp_path / "t.svm", tmp_path / "m.skops"
    path.write_text("".join(f"{(1.5, 2.25)[k % 2]} 1:{k % 2 + k / 50:g} 2:{k}\n" for k in range(12)))
    worked("fit", path, *FAST, "--out", model)
    done = run("predict", model, path)
    assert set(done.stdout.split()) == {"1.5", "2.25"}
    assert "error 0.00 % (0 of 12 samples)" in done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [("--target", "0"), ("--separator", "tab"), ("--decimal", ","), ("--impute", "median")],
)
def test_options_of_tables_are_refused_elsewhere(tmp_path, option, value):
    """An option of tables is refused for svmlight files and named data sets."""
    path = write(tmp_path / "t.svm", ["1 1:1"], ["-1 1:2"])
    for data in ("ionosphere", path):
        assert f"{option} is for CSV files; {data} is" in refused("fit", data, option, value)


@pytest.mark.parametrize("command", ["fit", "compare", "duals"])
def test_more_faces_than_samples_are_told(command, tmp_path):
    """More faces than samples are refused before they take minutes, unless --large asks for them."""
    table = small_table(tmp_path)
    data = (table,) if command == "fit" else ("--data", table)
    method = "--methods" if command == "compare" else "--method"
    said = "--faces 1,000 is more than the 30 samples of table.csv"
    assert said in refused(command, *data, method, "cpm", "--faces", 1000)
    assert said in refused(command, *data, method, "cpm", "--set", "n_faces=1000")
    if command == "fit":
        more = ("--large", "--set", "n_init=1", "--solver", "exact", "--set", "max_iter=1", "--quiet")
        worked("fit", table, "--method", "cpm", "--faces", 31, *more)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize("kind", [np.asarray, csr_matrix], ids=["dense", "sparse"])
def test_feature_of_extreme_scale_is_named(scale, kind):
    """A feature whose variance leaves double precision is named; a constant one is fine."""
    X = np.array([[1.0, 1.0], [2.0, 5.0], [4.0, 3.0]]) * [1.0, scale]
    with pytest.raises(ValueError, match=r"feature 'big' goes from .* multiply it by a constant"):
        scaler_for(kind(X), ["small", "big"])
    with pytest.raises(ValueError, match="feature 2 goes"):
        scaler_for(X)
    assert np.isfinite(scaler_for(X * [1.0, 0.0]).transform(X * [1.0, 0.0])).all()


def test_interior_point_refuses_wide_data(tmp_path):
    """Features whose matrices would fill the memory are refused by the interior point, not by others."""
    rows = ["1 1:1 50000:2"], ["-1 2:1"], ["1 1:2"], ["-1 2:2 50000:-1"]
    path = write(tmp_path / "t.svm", *rows)
    assert "50000 features need matrices of 20 GB" in refused("fit", path, *FAST)
    worked("fit", path, "--method", "svm", "--quiet")


def test_cost_near_zero_is_fitted(tmp_path):
    """C = 1e-300 is no division by zero."""
    assert "training error" in worked("fit", small_table(tmp_path), *FAST, "--C", "1e-300")


@pytest.mark.parametrize(("n_classes", "n_samples", "least"), [(2, 4, 5), (30, 60, 117)])
def test_samples_for_test_part_are_counted(n_classes, n_samples, least):
    """Too few samples for a test part with each class are told with how many are needed."""

    def data(n):
        X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % n_classes
        return Dataset("few", X, y, target_names=tuple(map(str, range(n_classes))))

    with pytest.raises(ValueError, match=f"{n_samples} samples of {n_classes} classes; {least} are needed"):
        prepare(data(n_samples))
    prepare(data(least + n_classes))


def test_unseen_texts_are_told(tmp_path):
    """A text that the fit did not see is told, and is no text of the model."""
    model, rows = tmp_path / "m.skops", [[k * (-1) ** k, "rgb"[k % 3], "io"[k % 2]] for k in range(20)]
    path = write(tmp_path / "t.csv", ["size", "colour", "kind"], *rows)
    worked("fit", path, "--categorical", "colour", *FAST, "--out", model)
    done = run("predict", model, write(tmp_path / "new.csv", ["size", "colour"], [1, "R"], [2, "g"]))
    assert "column 'colour': the model has not seen 'R', and counts it as no text" in done.stderr
    assert "has not seen" not in run("predict", model, path).stderr


def test_onnx_refuses_column_named_as_output(tmp_path):
    """A column with the name of an output of the graph is refused, and nothing is written."""
    pytest.importorskip("onnx")
    rows = [[k, "rgb"[k % 3], "io"[k % 2]] for k in range(12)]
    path, model = write(tmp_path / "t.csv", ["label", "colour", "y"], *rows), tmp_path / "m.skops"
    worked("fit", path, "--categorical", "colour", *FAST, "--out", model)
    told = refused("export", model, "--out", tmp_path / "m.onnx")
    assert "the column 'label' has the name of an output" in told
    assert not (tmp_path / "m.onnx").exists()


def test_damaged_model_files_are_told(tmp_path):
    """A model with wrong facts, without its end, or that is a device is refused."""
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


def test_output_is_no_standard_output(tmp_path):
    """A file is not mixed with what is printed on standard output."""
    table = small_table(tmp_path)
    for command in (("fit", table, "--out"), ("compare", "--data", table, "--report")):
        assert f"{command[-1]}: standard output has what is printed" in refused(*command, "-")
