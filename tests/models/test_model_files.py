"""Models in files: what they hold, what they say, and what is refused."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from helpers.commands import run, small_table, worked
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import polyopt
from polyopt import SVM, ConvexPolytopeMachine, LogisticPolytopes
from polyopt.datasets import Dataset
from polyopt.models import Model, facts_of_fit, load_model, save_model
from polyopt.models.model import digest

X = np.round(np.random.default_rng(0).normal(size=(16, 2)) + 1.5 * np.repeat([0, 1], 8)[:, None], 3)
Y = np.repeat([0, 1], 8)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The bytes of a saved model."""
    path = tmp_path_factory.mktemp("kept") / "m.skops"
    pipeline = make_pipeline(StandardScaler(), ConvexPolytopeMachine(2, n_init=1, random_state=0)).fit(X, Y)
    save_model(Model.of(pipeline).without_data(), path)
    return path.read_bytes()


def test_model_of_wdbc_is_small(tmp_path):
    """A model without data is small, and says what was fitted and what was proven of it."""
    path = tmp_path / "m.skops"
    said = worked("fit", "wdbc", "--method", "cpm", "--set", "max_iter=5", "--out", path)
    assert path.stat().st_size < 20_000
    assert "kB), without the training data" in said
    assert "--keep-data" in said
    facts, shown = load_model(path).facts, " ".join(worked("info", path).split())
    claim = facts["claim"]
    assert claim["sentence"] in " ".join(said.split())
    assert claim["primal"] - claim["bound"] == claim["gap"]
    assert facts["data"]["samples"] == 569
    assert facts["versions"]["polyopt"] == polyopt.__version__
    assert facts["parameters"]["max_iter"] == 5
    steps = "scaler StandardScaler, machine ConvexPolytopeMachine"
    size = f"size {path.stat().st_size / 1000:.1f} kB"
    for text in (
        claim["sentence"],
        "n features 30",
        "(30 in all)",
        "holds data no",
        "max_iter 5",
        steps,
        size,
    ):
        assert text in shown


def test_kept_data_prove_again(tmp_path):
    """With --keep-data the file has what certificates and multipliers need; without, a sentence says so."""
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
    """A machine that is saved from Python has no facts of its fit, but may have probabilities."""
    path = tmp_path / "m.skops"
    save_model(LogisticPolytopes(n_faces=1).fit(X, Y), path)
    said = worked("info", path)
    assert "not known: the model was saved without the facts of its fit" in said
    assert "interrupted" not in said
    assert "probabilities the model's own" in " ".join(said.split())


def test_digest_is_of_the_data():
    """The digest changes with samples, labels or features' names, and not with storage or title."""
    data = Dataset("a", X, Y, ("0", "1"), ("a", "b"))
    others = [replace(data, X=X + 1e-9), replace(data, y=1 - Y), replace(data, feature_names=("a", "c"))]
    assert digest(data) == digest(replace(data, name="b", X=X.copy(order="F")))
    assert len({digest(other) for other in [data, *others]}) == 4


def test_whole_pipeline_is_saved(tmp_path, rng):
    """Imputers, encoders and scalers are saved with the machine, and their columns have names."""
    cells = np.empty((40, 3), dtype=object)
    cells[:, :2], cells[:, 2] = rng.normal(size=(40, 2)), rng.choice(["red", "green"], 40)
    y = (cells[:, 0] + (cells[:, 2] == "red") > 0.5).astype(int)
    cells[3, 1] = np.nan
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    parts = [("numbers", SimpleImputer(), [0, 1]), ("text", encoder, [2])]
    prepare = ColumnTransformer(parts, verbose_feature_names_out=False)
    pipeline = make_pipeline(prepare, StandardScaler(), SVM(kernel="linear")).fit(cells, y)
    model = Model.of(pipeline, feature_names=["p", "q", "colour"], target="y", method="svm")
    save_model(model.without_data(), tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(cells), pipeline.predict(cells))
    assert again.n_features == 3
    assert again.raw_units.names == ["p", "q", "colour_green", "colour_red"]


def test_facts_are_plain():
    """The facts of a fit are what JSON holds, numbers of numpy too."""
    machine = SVM(kernel="rbf", C=np.float64(2.0)).fit(X, Y)
    facts = facts_of_fit(machine, Dataset("a", X, Y, ("0", "1")), machine.certificate())
    assert json.loads(json.dumps(facts)) == facts
    assert facts["parameters"]["C"] == 2.0
    assert facts["status"] == [str(machine.solution_.status)]


# -- what is refused -------------------------------------------------------------------------------


def refused(path, message=""):
    """Every command that reads a model refuses it in one line."""
    for command in (("info", path), ("predict", path, "wdbc"), ("rules", path)):
        done = run(*command)
        assert done.exit_code == 2
        assert done.output.count("\n") == 1
        assert done.output.startswith("error: ")
        assert message in done.output


def rewritten(whole, path, change=lambda schema: schema, **members):
    """A saved model with another schema, and more members."""
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name == "schema.json" else content)
        for name, content in members.items():
            new.writestr(name, content)
    return path


def with_node(whole, path, node, **members):
    """A saved model with one more node in its schema, which nothing else reads, and members."""

    def change(content):
        schema = json.loads(content)
        schema["content"]["more"] = node
        schema["key_types"]["content"].append(schema["key_types"]["content"][0])
        return json.dumps(schema)

    return rewritten(whole, path, change, **members)


@pytest.mark.parametrize("damage", ["cut", "one byte", "21 bytes"])
def test_damaged_file_is_named(kept, tmp_path, damage):
    """Cut or overwritten at any place: never a traceback, and never another exit status."""
    path, rng = tmp_path / "m.skops", np.random.default_rng(0)
    for _ in range(15):
        damaged = bytearray(kept)
        if damage == "cut":
            damaged = damaged[: int(rng.integers(len(kept)))]
        else:
            for place in rng.integers(len(kept), size=int(damage.split()[0].replace("one", "1"))):
                damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        done = run("info", path)
        assert done.exit_code in (0, 2)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        if done.exit_code == 2:
            assert done.output.startswith("error: ")
            assert done.output.count("\n") == 1


CLASSES = {
    "hostile": (
        [(b'"StandardScaler"', b'"Popen"'), (b'"sklearn.preprocessing._data"', b'"subprocess"')],
        "is refused: it holds subprocess.Popen, which no model needs",
    ),
    "of another version": (
        [(b'"ConvexPolytopeMachine"', b'"SoftRelativeMarginMachine"')],
        "was saved by another polyopt, as it holds polyopt.cpm.estimator.SoftRelativeMarginMachine",
    ),
}


@pytest.mark.parametrize(("names", "sentence"), CLASSES.values(), ids=CLASSES)
def test_other_classes_are_refused(kept, tmp_path, names, sentence):
    """A file of a class that no model needs, or that this version does not have, makes no object."""

    def change(schema):
        for own, other in names:
            schema = schema.replace(own, other, 1)
        return schema

    refused(rewritten(kept, tmp_path / "m.skops", change), sentence)


def test_file_that_fills_the_memory(tmp_path):
    """A small file of 80 MB of blanks is refused before it is unpacked."""
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 80_000_000)
    refused(path, "it would grow from")


ABOUT = json.dumps({"feature_names": None, "target": 0, "method": "svm", "facts": {}})
FOREIGN = "is not a model saved by 'polyopt fit', or it is damaged"
CONTENTS = {
    "version 2": (
        {"format": "polyopt model, version 2"},
        "by another polyopt (polyopt model, version 2): fit",
    ),
    "version 9": (
        {"format": "polyopt model, version 9"},
        "by another polyopt (polyopt model, version 9): fit",
    ),
    "no text": ({"format": "polyopt model, version 3", "about": "{", "pipeline": None}, FOREIGN),
    "no pipeline": (
        {"format": "polyopt model, version 3", "about": ABOUT, "pipeline": StandardScaler()},
        "its parts are not those of a model",
    ),
    "number as a name": (
        {"format": "polyopt model, version 3", "about": ABOUT, "pipeline": Model.of(SVM()).pipeline},
        FOREIGN,
    ),
}


@pytest.mark.parametrize(("content", "sentence"), CONTENTS.values(), ids=CONTENTS)
def test_other_contents_are_refused(tmp_path, content, sentence):
    """Another version, and other parts than a model's, are named."""
    skops.io.dump(content, tmp_path / "m.skops")
    refused(tmp_path / "m.skops", sentence)


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
def test_hostile_nodes_are_refused(kept, tmp_path, name):
    """Neither a crash nor a traceback, and nothing is run."""
    run_by_pickle = f"cos\nsystem\n(S'touch {tmp_path / 'made'}'\ntR.".encode()
    refused(with_node(kept, tmp_path / "m.skops", HOSTILE[name], pickle=run_by_pickle))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("shape", [(10**15,), (2**40, 2**40), (-5,), (0, 2**62)], ids=str)
def test_impossible_shapes_are_refused(kept, tmp_path, shape):
    """An array's header with a shape that no memory has is a sentence."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    refused(with_node(kept, tmp_path / "m.skops", array_in("a.npy"), **{"a.npy": header.getvalue()}))


SCHEMAS = ["[]", "3", "{", "null", "[" * 100_000, b"\xff\xfe\x00", '{"protocol": 3}']


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: repr(schema[:15]))
def test_other_schemas_are_refused(kept, tmp_path, schema):
    """Text that is no schema of skops, or no text, is a sentence."""
    refused(rewritten(kept, tmp_path / "m.skops", lambda _: schema))


def test_object_within_itself_is_finite(kept, tmp_path):
    """A list that contains itself by its number is read without end nowhere."""
    inner = list_of(__id__=1)
    path = with_node(kept, tmp_path / "m.skops", list_of(list_of(inner, __id__=2), __id__=1))
    assert load_model(path).method == "cpm"


@pytest.mark.parametrize("member", ["matrix.npz", "matrix.dat"])
def test_matrix_packed_twice_is_refused(kept, tmp_path, member):
    """A sparse matrix counts for the bytes that it unpacks to, whatever its member is called."""
    packed = io.BytesIO()
    zeros = np.zeros(10**7), np.zeros(10**7, np.int32), [0, 10**7]
    sp.save_npz(packed, sp.csr_matrix(zeros, shape=(1, 1)))
    node = node_of("scipy.sparse._csr.csr_matrix", "SparseMatrixNode", type="scipy", file=member)
    path = with_node(kept, tmp_path / "m.skops", node, **{member: packed.getvalue()})
    refused(path, "it would grow from")
