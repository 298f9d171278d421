"""Models in files: what they hold, what they say, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from helpers.commands import run, small_table, worked
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import polyopt
from polyopt import ConvexPolytopeMachine
from polyopt.datasets import Dataset
from polyopt.margin.svm import SVM
from polyopt.models import Model, facts_of_fit, load_model, save_model
from polyopt.models.model import digest


def points():
    """Samples of two classes, eight of each."""
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(16, 2)) + 1.5 * np.repeat([0, 1], 8)[:, None], 3)


@cache
def kept():
    """The bytes of a saved model."""
    machine = ConvexPolytopeMachine(n_init=1, random_state=0).fit(points(), np.repeat([0, 1], 8))
    with TemporaryDirectory() as folder:
        save_model(
            Model.of(machine.without_data(), [("scaler", StandardScaler().fit(points()))]), f"{folder}/m"
        )
        return (Path(folder) / "m").read_bytes()


def test_the_model_of_wdbc_is_small_and_says_what_was_proven(tmp_path):
    path = tmp_path / "m.skops"
    said = worked("fit", "wdbc", "--method", "cpm", "--set", "max_iter=5", "--out", path)
    assert path.stat().st_size < 20_000
    assert "kB), without the training data" in said
    assert "--keep-data" in said
    facts, shown = load_model(path).facts, " ".join(worked("info", path).split())
    assert facts["claim"]["sentence"] in " ".join(said.split())
    assert facts["claim"]["primal"] - facts["claim"]["bound"] == facts["claim"]["gap"]
    assert facts["data"]["samples"] == 569
    assert facts["versions"]["polyopt"] == polyopt.__version__
    assert facts["parameters"]["max_iter"] == 5
    for text in (
        facts["claim"]["sentence"], "n features 30", "(30 in all)", "holds data no", "max_iter 5",
        "scaler StandardScaler, machine ConvexPolytopeMachine", f"size {path.stat().st_size / 1000:.1f} kB",
    ):  # fmt: skip
        assert text in shown


def test_keep_data_keeps_what_certificates_need(tmp_path):
    table, whole, light = small_table(tmp_path), tmp_path / "whole.skops", tmp_path / "light.skops"
    said = worked("fit", table, "--method", "svm-rbf", "--out", whole, "--keep-data")
    assert "with the training data" in said
    worked("fit", table, "--method", "svm-rbf", "--out", light)
    found = load_model(whole)
    assert found.estimator.certificate().sentence == found.facts["claim"]["sentence"]
    assert len(found.estimator.duals_) == 60
    with pytest.raises(ValueError, match="without --keep-data"):
        load_model(light).estimator.certificate()


def test_info_prints_text_as_text(tmp_path):
    """Labels, names and files with markup and control characters are shown and not obeyed."""
    table, path = tmp_path / "t.csv", tmp_path / "m.skops"
    rows = "".join(f"{i % 7},{i % 5},{'[red]x' if i % 2 else '[/]y'}\n" for i in range(20))
    table.write_text("[bold]a,b\x1b[31m,c\n" + rows, encoding="utf-8")
    worked("fit", table, "--method", "svm", "--out", path)
    said = worked("info", path)
    assert "[bold]a, b\\x1b[31m" in said
    assert "[/]y, [red]x" in said
    assert "\x1b" not in said
    for name in ("method", "settings", "parameters", "claim", "status", "data", "fitted", "versions", "size"):
        assert f"\n{name}" in f"\n{said}"


def test_info_says_what_is_not_known(tmp_path):
    """A machine that is saved from Python has no facts of its fit."""
    path = tmp_path / "m.skops"
    save_model(SVM().fit(points(), np.repeat([0, 1], 8)), path)
    assert "not known: the model was saved without the facts of its fit" in worked("info", path)
    assert "interrupted" not in worked("info", path)


def test_the_digest_is_of_the_data():
    X, y = points(), np.repeat([0, 1], 8)
    data = Dataset("a", X, y, ("0", "1"), ("a", "b"))
    assert digest(data) == digest(replace(data, name="b", X=X.copy(order="F")))
    others = [
        replace(data, X=X + 1e-9),
        replace(data, y=1 - y),
        replace(data, feature_names=("a", "c")),
    ]
    assert len({digest(other) for other in [data, *others]}) == 4


def test_a_whole_pipeline_is_saved(tmp_path):
    rng = np.random.default_rng(1)
    X = np.empty((40, 3), dtype=object)
    X[:, 0], X[:, 1] = rng.normal(size=40), rng.normal(size=40)
    X[:, 2] = rng.choice(["red", "green"], 40)
    X[3, 1] = np.nan
    y = (X[:, 0] + (X[:, 2] == "red") > 0.5).astype(int)
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    parts = [("numbers", SimpleImputer(), [0, 1]), ("text", encoder, [2])]
    prepare = ColumnTransformer(parts, verbose_feature_names_out=False).fit(X)
    scaler = StandardScaler().fit(prepare.transform(X))
    machine = SVM(kernel="linear").fit(scaler.transform(prepare.transform(X)), y)
    model = Model.of(
        machine.without_data(), [("prepare", prepare), ("scaler", scaler)],
        feature_names=["p", "q", "colour"], target="y", method="svm",
    )  # fmt: skip
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), machine.predict(scaler.transform(prepare.transform(X))))
    assert again.n_features == 3
    assert again.raw_units.names == ["p", "q", "colour_green", "colour_red"]


# -- what is refused -------------------------------------------------------------------------------


def refused(path, message):
    for command in (("info", path), ("predict", path, "wdbc"), ("rules", path)):
        done = run(*command)
        assert done.exit_code == 2
        assert done.output.count("\n") == 1
        assert done.output.startswith("error: ")
        assert message in done.output


def test_damaged_files_are_named_in_a_sentence(tmp_path):
    """Cut, overwritten at any place, or emptied: never a traceback, and never another exit status."""
    whole, path = kept(), tmp_path / "m.skops"
    rng = np.random.default_rng(0)
    for number in range(60):
        damaged = bytearray(whole)
        if number % 3 == 0:
            damaged = damaged[: int(rng.integers(len(whole)))]
        else:
            for place in rng.integers(len(whole), size=1 + 20 * (number % 3 - 1)):
                damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        done = run("info", path)
        assert done.exit_code in (0, 2)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        if done.exit_code == 2:
            assert done.output.startswith("error: ")
            assert done.output.count("\n") == 1


def rewritten(path, change):
    """A saved model with another schema."""
    with zipfile.ZipFile(io.BytesIO(kept())) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name == "schema.json" else content)
    return path


def test_hostile_types_are_refused_unmade(tmp_path):
    path = rewritten(
        tmp_path / "m.skops",
        lambda schema: schema.replace(b'"StandardScaler"', b'"Popen"', 1).replace(
            b'"sklearn.preprocessing._data"', b'"subprocess"', 1
        ),
    )
    refused(path, "is refused: it holds subprocess.Popen, which no model needs")


def test_a_class_that_is_not_here_is_named(tmp_path):
    """A file of a class that this version does not have is refused by its name."""
    path = rewritten(
        tmp_path / "m.skops",
        lambda schema: schema.replace(b'"ConvexPolytopeMachine"', b'"SoftRelativeMarginMachine"'),
    )
    refused(path, "was saved by another polyopt, as it holds polyopt.cpm.estimator.SoftRelativeMarginMachine")


def test_what_would_fill_the_memory_is_refused(tmp_path):
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 80_000_000)
    refused(path, "it would grow from")


def test_other_versions_and_other_contents_are_named(tmp_path):
    path = tmp_path / "m.skops"
    for version in ("version 2", "version 9"):
        skops.io.dump({"format": f"polyopt model, {version}"}, path)
        refused(path, f"was saved by another polyopt (polyopt model, {version}): fit the model again")
    skops.io.dump({"format": "polyopt model, version 3", "about": "{", "pipeline": None}, path)
    refused(path, "is not a model saved by 'polyopt fit', or it is damaged")
    about = json.dumps({"feature_names": None, "target": 0, "method": "svm", "facts": {}})
    skops.io.dump({"format": "polyopt model, version 3", "about": about, "pipeline": StandardScaler()}, path)
    refused(path, "its parts are not those of a model")
    pipeline = Model.of(SVM(), method="svm").pipeline
    skops.io.dump({"format": "polyopt model, version 3", "about": about, "pipeline": pipeline}, path)
    refused(path, "is not a model saved by 'polyopt fit', or it is damaged")


def test_facts_are_plain(tmp_path):
    X, y = points(), np.repeat([0, 1], 8)
    machine = SVM(kernel="rbf", C=np.float64(2.0)).fit(X, y)
    facts = facts_of_fit(machine, Dataset("a", X, y, ("0", "1")), machine.certificate())
    assert json.loads(json.dumps(facts)) == facts
    assert facts["parameters"]["C"] == 2.0
    assert facts["status"] == [str(machine.solution_.status)]


def rewritten_with(path, node, **members):
    """A saved model with one more node and members; nothing else reads them."""
    with zipfile.ZipFile(io.BytesIO(kept())) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                schema["content"]["more"] = node
                schema["key_types"]["content"].append(schema["key_types"]["content"][0])
                content = json.dumps(schema)
            new.writestr(name, content)
        for name, content in members.items():
            new.writestr(name, content)
    return path


def node_of(kind, form, **parts):
    """A node of a schema, of a type given by its whole name."""
    home, _, name = kind.rpartition(".")
    return {"__module__": home, "__class__": name, "__loader__": form, **parts}


def list_of(*items, **parts):
    """A node of a list."""
    return node_of("builtins.list", "ListNode", content=list(items), **parts)


def text_of(content):
    """A node of what JSON holds."""
    return node_of("builtins.str", "JsonNode", content=content)


def array_in(member, kind="numpy.ndarray"):
    """A node of an array in a member of the archive."""
    return node_of(kind, "NdArrayNode", type="numpy", file=member)


HOSTILE = {
    "no member": array_in("missing.npy"),
    "member that is a path": array_in("../../etc/passwd"),
    "member that is a number": array_in(3),
    "pickle": array_in("pickle"),
    "deep text": text_of("[" * 100_000),
    "long number": text_of("1" * 5000),
    "object that is no text": text_of({"a": 1}),
    "unhashable id": list_of(__id__=[1]),
    "list that is a number": node_of("builtins.list", "ListNode", content=3),
    "no content": node_of("builtins.list", "ListNode"),
    "no type": {"__loader__": "ListNode", "content": []},
    "module that is no text": list_of() | {"__module__": ["os"]},
    "class with a point": node_of("x", "ObjectNode")
    | {"__module__": "sklearn", "__class__": "impute._base.SimpleImputer"},
    "foreign class": node_of("os.system", "ObjectNode", content=None),
    "foreign form": node_of("builtins.list", "PartialNode", content={}),
    "kind without a default": node_of("numpy.dtype", "ObjectNode", content=None),
    "state that is none": node_of("polyopt.margin.svm.SVM", "ObjectNode", content=text_of("[1, [2]]")),
    "keys that are objects": node_of(
        "builtins.dict",
        "DictNode",
        content={"a": text_of("1")},
        key_types=list_of(node_of("sklearn.preprocessing._data.StandardScaler", "ObjectNode", content=None)),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_nodes_are_refused_in_a_sentence(tmp_path, name):
    """Neither a crash nor a traceback, and nothing is run."""
    run_by_pickle = f"cos\nsystem\n(S'touch {tmp_path / 'made'}'\ntR.".encode()
    path = rewritten_with(tmp_path / "m.skops", HOSTILE[name], pickle=run_by_pickle)
    refused(path, "")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("shape", [(10**15,), (2**40, 2**40), (-5,), (0, 2**62)])
def test_arrays_of_impossible_shapes_are_refused(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    refused(rewritten_with(tmp_path / "m.skops", array_in("a.npy"), **{"a.npy": header.getvalue()}), "")


@pytest.mark.parametrize(
    "schema", ["[]", "3", "{", "null", "[" * 100_000, b"\xff\xfe\x00", '{"protocol": 3}']
)
def test_schemas_that_are_none_are_refused(tmp_path, schema):
    refused(rewritten(tmp_path / "m.skops", lambda _: schema), "")


def test_an_object_within_itself_is_no_endless_one(tmp_path):
    inner = list_of(__id__=1)
    path = rewritten_with(tmp_path / "m.skops", list_of(list_of(inner, __id__=2), __id__=1))
    assert load_model(path).method == "cpm"


@pytest.mark.parametrize("member", ["matrix.npz", "matrix.dat"])
def test_a_matrix_that_is_packed_twice_counts_for_what_it_unpacks_to(tmp_path, member):
    packed = io.BytesIO()
    zeros = np.zeros(10**7), np.zeros(10**7, np.int32), [0, 10**7]
    sp.save_npz(packed, sp.csr_matrix(zeros, shape=(1, 1)))
    node = node_of("scipy.sparse._csr.csr_matrix", "SparseMatrixNode", type="scipy", file=member)
    path = rewritten_with(tmp_path / "m.skops", node, **{member: packed.getvalue()})
    refused(path, "it would grow from")
