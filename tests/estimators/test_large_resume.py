"""Checkpoints of samples in blocks are of their samples and labels, and proofs of faces of one assignment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from polyopt import Claim, large
from polyopt.large import alternation


def half_and_half(feature):
    """Labels of which each block of three has as many of a class as any other labels made by this."""
    parts = [np.argsort(np.argsort(part)) >= len(part) // 2 for part in np.split(feature, 3)]
    return np.concatenate(parts).astype(int)


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(90, 3))
    return X, half_and_half(X[:, 0] + X[:, 2] ** 2), half_and_half(X[:, 1])


def polytope(**settings):
    return large.ConvexPolytopeMachine(**{"n_faces": 2, "max_passes": 1, "max_rounds": 1, **settings})


def refused(machine, X, y, path, message="samples, labels or weights were others", **given):
    with pytest.raises(ValueError, match=f"of another fit: .*{message}"):
        machine.fit(large.Arrays(X, y, rows=30), resume=path, **given)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_other_labels_and_other_sparse_samples_are_another_fit(kind, data, tmp_path):
    """As many of each class, with the same weights: what a loop over one class against the rest has."""
    X, y, other = data
    X, path = kind(np.where(np.abs(X) > 1.0, X, 0.0)), tmp_path / "checkpoint"
    large.SVM().fit(large.Arrays(X, y, rows=30), checkpoint=path)
    refused(large.SVM(), X, other, path)
    refused(large.SVM(), X, 1 - y, path)
    refused(large.SVM(), X * 2.0, y, path)
    refused(large.SigmaSVM(), X, y, path, "machine was 'the SVM', and is 'the Sigma-SVM'")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_faces_that_were_proven_for_other_labels_are_not_taken_over(data, tmp_path):
    X, y, other = data
    path = tmp_path / "checkpoint"
    polytope().fit(large.Arrays(X, y, rows=30), checkpoint=path)
    refused(polytope(), X, other, path)
    refused(polytope(inside_label=1), X, y, path)
    refused(polytope(n_faces=3), X, y, path, "faces was 2, and is 3")
    refused(large.SVM(), X, y, path, "machine was")


def test_a_pass_is_of_its_labels(data, tmp_path, monkeypatch):
    X, y, other = data
    path = tmp_path / "checkpoint"

    def killed(*_, **__):
        raise SystemExit

    monkeypatch.setattr(alternation.Rounds, "run", killed)
    with pytest.raises(SystemExit):
        polytope().fit(large.Arrays(X, y, rows=30), checkpoint=path)
    refused(polytope(), X, other, path)
    refused(polytope(inside_label=1), X, y, path)
    refused(polytope(n_faces=1), X, y, path, "faces was 2, and is 1")  # which takes none
    with pytest.raises(ValueError, match="give one"):
        polytope().fit(large.Arrays(X, y, rows=30), resume=path, faces=np.ones((2, 4)))


def test_faces_of_two_assignments_prove_nothing_together(data, monkeypatch):
    """As where a row that two faces share by rounding was left out by both."""
    X, y, _ = data
    source, faces, certify = large.Arrays(X, y, rows=30), np.eye(2, 4), alternation.certify_blocks
    whole = polytope(least_fall=1.0, max_rounds=9).fit(source, faces=faces)
    assert whole.certificate().claim in (Claim.STATIONARY, Claim.SUBOPTIMAL_BY)

    def less(*given, **settings):
        half = certify(*given, **settings)
        return replace(half, primal_value=half.primal_value - 1e-3, dual_value=half.dual_value - 1e-3)

    monkeypatch.setattr(alternation, "certify_blocks", less)
    with pytest.warns(ConvergenceWarning, match="not of one assignment"):
        torn = polytope(least_fall=1.0, max_rounds=9).fit(source, faces=faces)
    assert torn.certificate().claim is Claim.NONE
