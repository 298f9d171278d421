"""Checkpoints of samples in blocks are of their samples and labels, and proofs of faces of one assignment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from polyopt import SVM, Claim, ConvexPolytopeMachine, SigmaSVM, scale
from polyopt.cpm import alternating_by_blocks as alternation
from polyopt.cpm import sgd_by_blocks


def half_and_half(feature):
    """Labels of which each block of three has as many of a class as any other labels made by this."""
    parts = [np.argsort(np.argsort(part)) >= len(part) // 2 for part in np.split(feature, 3)]
    return np.concatenate(parts).astype(int)


@pytest.fixture(autouse=True)
def one_pass(monkeypatch):
    monkeypatch.setattr(sgd_by_blocks, "OPTIONS", sgd_by_blocks.Options(max_passes=1))


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(90, 3))
    return X, half_and_half(X[:, 0] + X[:, 2] ** 2), half_and_half(X[:, 1])


def polytope(**settings):
    return ConvexPolytopeMachine(**{"n_faces": 2, "max_iter": 1, "random_state": 0, **settings})


def refused(machine, X, y, path, message="samples, labels or weights were others"):
    with pytest.raises(ValueError, match=f"of another fit: .*{message}"):
        machine.fit(scale.Arrays(X, y, rows=30), resume=path)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_other_labels_and_other_sparse_samples_are_another_fit(kind, data, tmp_path):
    """As many of each class, with the same weights: what a loop over one class against the rest has."""
    X, y, other = data
    X, path = kind(np.where(np.abs(X) > 1.0, X, 0.0)), tmp_path / "checkpoint"
    SVM(kernel="linear").fit(scale.Arrays(X, y, rows=30), checkpoint=path)
    refused(SVM(kernel="linear"), X, other, path)
    refused(SVM(kernel="linear"), X, 1 - y, path)
    refused(SVM(kernel="linear"), X * 2.0, y, path)
    refused(SigmaSVM(kernel="linear"), X, y, path, "machine was 'the SVM', and is 'the Sigma-SVM'")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_faces_that_were_proven_for_other_labels_are_not_taken_over(data, tmp_path):
    X, y, other = data
    path = tmp_path / "checkpoint"
    polytope().fit(scale.Arrays(X, y, rows=30), checkpoint=path)
    refused(polytope(), X, other, path)
    refused(polytope(inside_label=1), X, y, path, "inside was '0', and is '1'")
    refused(polytope(n_faces=3), X, y, path, "faces was 2, and is 3")
    refused(SVM(kernel="linear"), X, y, path, "machine was")


def test_a_pass_is_of_its_labels(data, tmp_path, monkeypatch):
    X, y, other = data
    path = tmp_path / "checkpoint"

    def killed(*_, **__):
        raise SystemExit

    monkeypatch.setattr(alternation.Rounds, "run", killed)
    with pytest.raises(SystemExit):
        polytope().fit(scale.Arrays(X, y, rows=30), checkpoint=path)
    refused(polytope(), X, other, path)
    refused(polytope(inside_label=1), X, y, path, "inside was '0', and is '1'")
    refused(polytope(n_faces=1), X, y, path, "faces was 2, and is 1")  # which takes none
    with pytest.raises(ValueError, match="give one"):
        polytope().begin_from(np.ones((2, 4))).fit(scale.Arrays(X, y, rows=30), resume=path)


def test_faces_of_two_assignments_prove_nothing_together(data, monkeypatch):
    """As where a row that two faces share by rounding was left out by both."""
    X, y, _ = data
    source, faces, certify = scale.Arrays(X, y, rows=30), np.eye(2, 4), alternation.certify_blocks
    whole = polytope(tol=0.9, max_iter=9).begin_from(faces).fit(source)
    assert whole.certificate().claim in (Claim.STATIONARY, Claim.SUBOPTIMAL_BY)

    def less(*given, **settings):
        half = certify(*given, **settings)
        return replace(half, primal_value=half.primal_value - 1e-3, dual_value=half.dual_value - 1e-3)

    monkeypatch.setattr(alternation, "certify_blocks", less)
    with pytest.warns(ConvergenceWarning, match="not of one assignment"):
        torn = polytope(tol=0.9, max_iter=9).begin_from(faces).fit(source)
    assert torn.certificate().claim is Claim.NONE
