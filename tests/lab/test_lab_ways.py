"""Traces, programs and exports: what they show is what the loops, programs and checkers say."""

import contextlib
import io
import itertools
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from helpers.lab import Client, some_points

from polyopt.check.check import Refused, check
from polyopt.lab.state import machines

POINTS = some_points(20, seed=3)


def state(machine, method="auto", **settings):
    return {"points": POINTS, "machine": machine, "method": method, "settings": settings}


@pytest.fixture(scope="module")
def client():
    return Client()


def faces_of(step):
    return np.array([[*face["w"], face["b"]] for face in step["faces"]])


def test_stochastic_path_ends_at_model(client):
    """The steps of SGD end at the model's own faces, beside the exact optimum."""
    own = state("cpm", "sgd", n_faces=2, sgd__average=False, max_iter=40)
    told = client.ask("trace", state=own)
    picture = client.ask("solve", state=own)
    assert told["what"] == "descent"
    assert told["unit"] == "epoch"
    assert [step["step"] for step in told["steps"]] == list(range(1, len(told["steps"]) + 1))
    np.testing.assert_allclose(faces_of(told["steps"][-1]), faces_of(picture), rtol=1e-9)
    assert told["steps"][-1]["objective"] == pytest.approx(picture["certificate"]["primal_value"], rel=1e-6)
    exact = client.ask("solve", state=state("cpm", "exact", n_faces=2, sgd__average=False, max_iter=40))
    assert told["optimum"]["certificate"] == exact["certificate"]
    assert told["optimum"]["faces"] == exact["faces"]
    assert told["optimum"]["solver"] == "exact"


def test_alternation_falls(client):
    """The objective of an alternation falls, and the changed samples are counted."""
    told = client.ask("trace", state=state("cpm", "exact", n_faces=3))
    values = [step["objective"] for step in told["steps"]]
    assert told["what"] == "alternation"
    assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(values))
    for before, after in itertools.pairwise(told["steps"]):
        assert after["changed"] == sum(np.array(before["assignment"]) != after["assignment"])
    own = np.array(told["steps"][-1]["assignment"])
    inside = client.ask("solve", state=state("cpm", "exact", n_faces=3))["inside"]
    assert ((own == -1) == (np.array(POINTS)[:, 2] == inside)).all()


def test_held_assignment_is_solved_alone(client):
    """The program of a held assignment is solved alone, as its lines of Python do."""
    first = client.ask("solve", state=state("cpm", n_faces=2), grid=None)
    held = {**state("cpm", "fixed", n_faces=2, inside_label=first["state"]["settings"]["inside_label"])}
    held["assignment"] = first["samples"]["face"]
    held["points"] = [[x + 0.5, -y, label] for x, y, label in POINTS]
    told = client.ask("solve", state=held, grid=None)
    assert told["certificate"]["claim"] == "optimal"
    assert "held" in told["certificate"]["program"]
    outside = np.array(POINTS)[:, 2] != first["inside"]
    assert (np.array(told["samples"]["face"])[outside] == np.array(held["assignment"])[outside]).all()
    assert told["state"]["assignment"] == held["assignment"]
    lines, names = client.ask("export", state=held)["python"], {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(lines, names)
    again = names["model"].certificate()
    assert again.primal_value == pytest.approx(told["certificate"]["primal_value"], rel=1e-12)
    assert again.program == told["certificate"]["program"]
    assert "one convex program" in client.ask("trace", state=held)["sentence"]
    for wrong in (None, [0], [7] * len(POINTS), ["0"] * len(POINTS), [1e9] * len(POINTS)):
        assert "assignment must" in client.ask("solve", state={**held, "assignment": wrong})["sentence"]


@pytest.mark.parametrize("machine", ["svm", "sigma-svm", "rmm"])
def test_interior_path_ends_at_model(client, machine):
    """The boundary of the interior point ends at the model's own."""
    told = client.ask("trace", state=state(machine, "interior-point", kernel="linear"))
    line = client.ask("solve", state=state(machine, "interior-point", kernel="linear"))["line"]
    last = told["steps"][-1]["faces"][0]
    np.testing.assert_allclose([*last["w"], last["b"]], [*line["w"], line["b"]], atol=1e-6)
    assert told["steps"][0]["faces"][0] != last
    assert told["steps"][0]["assignment"] is None


def test_cross_entropy_shows_probabilities(client):
    """The cross-entropy method shows a probability for each sample."""
    told = client.ask("trace", state=state("ce-svm", "ce", kernel="linear"))
    assert told["what"] == "cross-entropy"
    assert len(told["steps"]) <= 60
    for step in told["steps"]:
        assert len(step["probabilities"]) == len(POINTS)
        assert all(0 <= p <= 1 for p in step["probabilities"])


def test_convex_run_ends_at_optimum(client):
    """The run of a convex machine ends at the certificate's value, above its bound."""
    told = client.ask("trace", state=state("svm", kernel="linear"))
    proof = told["optimum"]["certificate"]
    assert told["what"] == "run"
    assert told["steps"][-1]["objective"] == pytest.approx(proof["primal_value"], rel=1e-6)
    assert told["steps"][-1]["objective"] >= proof["dual_value"] - 1e-9


@pytest.mark.parametrize("name", list(machines()))
def test_program_is_typeset(client, name):
    """Primal and dual have the certificate's values, and one of two complementary rows binds."""
    own = state(name) if name not in ("cpm", "polyceptron", "pc-slp") else state(name, n_init=1)
    told, picture = client.ask("program", state=own), client.ask("solve", state=own)
    assert told["primal"]["value"] == picture["certificate"]["primal_value"]
    assert told["dual"]["value"] == picture["certificate"]["dual_value"]
    for part in (told["primal"], told["dual"]):
        for formula in (part["objective"], *(row["mathml"] for row in part["rows"])):
            assert ET.fromstring(formula).tag == "math"
        for text in part["where"]:
            ET.fromstring(f"<p>{text}</p>")
            assert " style=" not in text
    by_row = {row["row"]: row for row in told["primal"]["rows"]}
    families = {family["row"]: family for family in picture["families"]}
    for row in by_row.values():
        assert row["binding"] == sum(number["binding"] for number in row["numbers"])
        if row["row"] in families and row["count"]:
            shown = [number["multiplier"] for number in row["numbers"]]
            assert sorted(shown) == sorted(families[row["row"]]["multiplier"])
    for row in told["dual"]["rows"]:
        if row["row"] in by_row and row["count"]:  # complementary: one of the two binds
            assert row["binding"] + by_row[row["row"]]["binding"] == row["count"]


def test_claim_is_checked(client, tmp_path):
    """The exported claim is proven by the checker, and a better one is refused."""
    told = client.ask("export", state=state("svm", kernel="linear"))
    data = tmp_path / told["data_name"]
    data.write_text(told["data"])
    claim = json.loads(told["claim"])["claims"][0]
    check(claim, str(data), [].append)
    claim["claim"]["bound"] = claim["claim"]["value"]
    claim["claim"]["gap"] = "0"
    with pytest.raises(Refused):
        check(claim, str(data), [].append)


@pytest.mark.parametrize("name", ["blobs", "two-lines", "moons", "quantiles", "polytope", "sonar"])
def test_data_set_comes_as_points(client, name):
    """A data set comes as points, the same ones again, that can be solved."""
    told = client.ask("dataset", name=name)
    assert len(told["points"]) == 150
    assert {label for _, _, label in told["points"]} == {-1, 1}
    assert told == {**client.ask("dataset", name=name), "id": told["id"]}
    solved = client.ask("solve", state={"points": told["points"], "machine": "svm"})
    assert solved["certificate"]["claim"] == "optimal"


def test_two_features_can_be_chosen(client):
    """Two features of a set can be chosen."""
    told = client.ask("dataset", name="pima", features=[1, 5])
    assert told["axes"] == [told["columns"][1], told["columns"][5]]
    assert told["sentence"].startswith("150 of 768 samples, drawn at random")
