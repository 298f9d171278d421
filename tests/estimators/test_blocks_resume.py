"""Checkpoints of fits to samples in blocks: the bits of a fit that was not ended, and of no other fit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.blocks import Breaking, bits, blobs, quietly, raise_error
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from formulations.language.solution import Status
from polyopt import SVM, Claim, ConvexPolytopeMachine, SGDSettings, SigmaSVM, scale

X, Y, WEIGHTS = blobs()
SOURCE = scale.Arrays(X, Y, WEIGHTS, rows=40)
START = np.eye(2, 5)
MACHINES = {
    "svm": SVM(kernel="linear"),
    "sigma-svm": SigmaSVM(kernel="linear", D=0.5),
    "cpm by faces": ConvexPolytopeMachine(2, C=0.5, max_iter=3, random_state=0),
    "cpm by dual ascent": ConvexPolytopeMachine(
        2, C=0.5, solver="dual", sgd=SGDSettings(feature_scale=0.5), max_iter=3, tol=1e-2, random_state=0
    ),
}
by_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def begun(machine, begins):
    """A copy of a machine, which begins from faces or from a pilot."""
    return clone(machine).begin_from(START) if begins else clone(machine)


# -- the same fit ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "begins"),
    [*((name, False) for name in MACHINES), ("cpm by faces", True), ("cpm by dual ascent", True)],
)
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_killed_fit_resumes_to_same_bits(name, begins, part, tmp_path):
    """A fit that is killed in a pass or a round, early or late, goes on from its last checkpoint."""
    machine, log, path = MACHINES[name], tmp_path / "log", tmp_path / "checkpoint"
    counting = Breaking(SOURCE, log)
    wanted, count = bits(quietly(begun(machine, begins), counting)), counting.n_readings
    killed = Breaking(SOURCE, log, {int(part * count)}, partial(raise_error, SystemExit))
    with pytest.raises(SystemExit):
        quietly(begun(machine, begins), killed, checkpoint=path)
    resumed = Breaking(SOURCE, log)
    assert bits(quietly(clone(machine), resumed, resume=path)) == wanted
    assert resumed.n_readings < count


@pytest.mark.parametrize("name", ["svm", "sigma-svm"])
def test_fit_goes_on_after_limit(name, tmp_path):
    """A fit that ended at its iteration limit goes on from there, and is as if there had been no limit."""
    machine, path = MACHINES[name], tmp_path / "checkpoint"
    wanted = bits(clone(machine).fit(SOURCE))
    with pytest.warns(ConvergenceWarning):
        clone(machine).set_params(max_iter=5).fit(SOURCE, checkpoint=path)
    assert bits(clone(machine).fit(SOURCE, resume=path)) == wanted


def test_seed_of_checkpoint_goes_on(tmp_path):
    """A resumed fit takes its passes in the orders of the seed that it began with."""
    machine, path = MACHINES["cpm by faces"], tmp_path / "checkpoint"
    wanted = bits(quietly(clone(machine), SOURCE))
    killed = Breaking(SOURCE, tmp_path / "log", {6}, partial(raise_error, SystemExit))
    with pytest.raises(SystemExit):
        clone(machine).fit(killed, checkpoint=path)
    assert bits(quietly(clone(machine).set_params(random_state=5), SOURCE, resume=path)) == wanted


# -- another fit -------------------------------------------------------------------------------


def swapped_in_blocks(y):
    """Other labels, as many of each class in every block of 40."""
    return np.concatenate([part[::-1] for part in np.split(y, range(40, len(y), 40))])


OTHER_SAMPLES = {
    "numbers": scale.Arrays(X * 2.0, Y, WEIGHTS, rows=40),
    "labels": scale.Arrays(X, swapped_in_blocks(Y), WEIGHTS, rows=40),
    "swapped labels": scale.Arrays(X, np.where(Y == "yes", "no", "yes"), WEIGHTS, rows=40),
    "weights": scale.Arrays(X, Y, WEIGHTS[::-1], rows=40),
    "CSR": scale.Arrays(sp.csr_array(X), Y, WEIGHTS, rows=40),
    "blocks": scale.Arrays(X, Y, WEIGHTS, rows=50),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The checkpoint of each machine at its end, and of a polytope in its passes."""
    folder, paths = tmp_path_factory.mktemp("checkpoints"), {}
    for name, machine in MACHINES.items():
        paths[name] = folder / name
        quietly(clone(machine), SOURCE, checkpoint=paths[name])
    paths["cpm in a pass"] = folder / "pass"
    killed = Breaking(SOURCE, folder / "log", {4}, partial(raise_error, SystemExit))
    with pytest.raises(SystemExit):
        clone(MACHINES["cpm by faces"]).fit(killed, checkpoint=paths["cpm in a pass"])
    return paths


@pytest.mark.parametrize("name", [*MACHINES, "cpm in a pass"])
@pytest.mark.parametrize("source", OTHER_SAMPLES.values(), ids=OTHER_SAMPLES)
def test_other_samples_are_another_fit(checkpoints, name, source):
    """A checkpoint is not resumed for other samples, labels or weights, however alike their counts are."""
    machine = MACHINES["cpm by faces" if name == "cpm in a pass" else name]
    told = "its samples, labels or weights were" if source.count == SOURCE.count else "blocks was 4, and is 3"
    with pytest.raises(ValueError, match=f"is of another fit: {told}"):
        clone(machine).fit(source, resume=checkpoints[name])


OTHER_MACHINES = {
    "C": ("svm", SVM(kernel="linear", C=2.0), "C was"),
    "machine": ("svm", MACHINES["sigma-svm"], "machine was 'the SVM', and is 'the Sigma-SVM'"),
    "SVM": ("cpm by faces", MACHINES["svm"], "machine was"),
    "solver": ("cpm by dual ascent", MACHINES["cpm by faces"], "scale was"),
    **{
        f"{setting}, {name}": (name, clone(MACHINES["cpm by faces"]).set_params(**{setting: value}), sentence)
        for name in ("cpm by faces", "cpm in a pass")
        for setting, value, sentence in [
            ("inside_label", "yes", "inside was 'no', and is 'yes'"),
            ("n_faces", 1, "faces was 2, and is 1"),
        ]
    },
}


@pytest.mark.parametrize(("name", "machine", "sentence"), OTHER_MACHINES.values(), ids=OTHER_MACHINES)
def test_other_settings_are_another_fit(checkpoints, name, machine, sentence):
    """A checkpoint is not resumed with other settings, which are named."""
    with pytest.raises(ValueError, match=f"is of another fit: {sentence}"):
        clone(machine).fit(SOURCE, resume=checkpoints[name])


def test_begun_faces_are_not_resumed(checkpoints):
    """A fit begins from faces or from a checkpoint."""
    with pytest.raises(ValueError, match="give one"):
        begun(MACHINES["cpm by faces"], True).fit(SOURCE, resume=checkpoints["cpm by faces"])


# -- files -------------------------------------------------------------------------------------


def test_broken_file_is_no_checkpoint(checkpoints, tmp_path):
    """A file that is cut off, or of another kind, is refused."""
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "half").write_bytes(checkpoints["svm"].read_bytes()[:100])
    for path in (tmp_path / "half", tmp_path / "X.npy"):
        with pytest.raises(ValueError, match="is no checkpoint"):
            SVM(kernel="linear").fit(SOURCE, resume=path)
    with pytest.raises(ValueError, match=r"the folder .* does not exist"):
        SVM(kernel="linear").fit(SOURCE, checkpoint=tmp_path / "none" / "checkpoint")


def test_full_disk_costs_no_fit(tmp_path):
    """A checkpoint that cannot be written is a warning; the fit ends, and the file before it is whole."""
    resource = pytest.importorskip("resource")  # of Unix
    path, wanted = tmp_path / "checkpoint", bits(SVM(kernel="linear").fit(SOURCE))
    quietly(SVM(kernel="linear", max_iter=4), SOURCE, checkpoint=path)
    before, limits = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, limits[1]))
        with pytest.warns(RuntimeWarning, match=r"cannot write .*checkpoint.* The fit goes on") as told:
            machine = SVM(kernel="linear").fit(SOURCE, checkpoint=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(told) == 1
    assert bits(machine) == wanted
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]
    assert bits(SVM(kernel="linear").fit(SOURCE, resume=path)) == wanted


# -- an assignment that rounds otherwise -------------------------------------------------------


def test_faces_of_two_assignments_prove_nothing(tmp_path):
    """If rows differ between readings, as processors that round differently have them, no claim is left.

    Of a block that is read again about 64 rows are compared: here every other one.
    """
    samples, log = np.tile(X, (2, 1)), tmp_path / "log"
    machine = ConvexPolytopeMachine(2, tol=0.9, random_state=0)
    source = Breaking(scale.Arrays(samples, np.tile(Y, 2), rows=150), log)
    whole = quietly(clone(machine).begin_from(START), source)
    assert whole.certificate().claim is not Claim.NONE
    assert whole.solution_.status is Status.CONVERGED

    def change():
        samples[151::2] *= 1.01

    source = Breaking(scale.Arrays(samples, np.tile(Y, 2), rows=150), log, {source.n_readings}, change)
    with pytest.warns(ConvergenceWarning, match=r"Short of the tolerance.*not of one assignment"):
        torn = clone(machine).begin_from(START).fit(source)
    assert torn.certificate().claim is Claim.NONE
