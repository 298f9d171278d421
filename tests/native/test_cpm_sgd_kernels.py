"""Algorithms 1 and 2 of the Convex Polytope Machine in C: equal to plain loops, for every type and length."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.draws import FORMS, anywhere, drawn_calls, placed, rows_anywhere, whole_samples

from polyopt.cpm.sgd import AVERAGE, COUNT_LOG_SUM, COUNTED, LOSS, MOVED, CpmSgd, assign, losses
from polyopt.linalg.rows import as_rows, in_lanes

WIDE = 1 << 17  # features, so many that columns are int32
WEIGHTS = [np.float32, np.float64]


def plain_steps(X, outside, gains, order, U, A, spacing, t, K, faces, tally):
    """Algorithm 1 without an entropy floor, as sgd.py states it; returns how near a choice was to another."""
    nearest = np.inf
    for i in order:
        scores = X[[i]] @ U[:-1] + U[-1]
        scores, t = scores[0, :K], t + 1
        x = np.append(X[[i]].toarray() if sp.issparse(X) else X[i], 1.0)
        size = gains[i] * t / (t + 1)
        rivals = [*np.sort(scores)[-2:-1], t] if outside[i] else [-t]
        gaps = np.abs(np.subtract.outer([scores.max()] if outside[i] else scores, rivals))
        nearest = min(nearest, gaps.min() / max(t, np.abs(scores).max()))
        if outside[i]:
            face = int(np.argmax(scores))
            tally[MOVED] += face != faces[i]
            faces[i] = face
            if scores[face] < t:
                tally[LOSS] += gains[i] * (t - scores[face]) / t
                U[:, face] += size * x
        else:
            for k in np.flatnonzero(scores > -t):
                tally[LOSS] += gains[i] * (t + scores[k]) / t
                U[:, k] -= size * x
        if spacing and t % spacing == 0:
            tally[AVERAGE] = tally[AVERAGE] * ((t - spacing) / t) ** 4 + 1
            A += (U / (t + 1) - A) / tally[AVERAGE]
    return nearest


@drawn_calls("cpm_sgd", form=FORMS, K=[1, 2, 7, 8, 9, 50, 80, 150], dtype=WEIGHTS, n=range(13), m=range(36))
def test_steps_are_those_of_plain_loops(rng, form, K, dtype, n, m):
    """Samples are visited several times; every number of vectors and strands occurs."""
    rows, X = whole_samples(rng, form, n, m)
    outside, gains = anywhere(rng, rng.random(n) < 0.5, rng.uniform(0.5, 2.0, n))
    order = anywhere(rng, rng.integers(0, max(n, 1), 40 if n else 0))
    sgd = CpmSgd(m, K, seed=int(rng.integers(99)), dtype=dtype)
    sgd.spacing, (sgd.U, sgd.A) = 3, anywhere(rng, sgd.U, sgd.A)
    U, A, faces, tally = sgd.U.astype(float), sgd.A.astype(float), np.full(n, -1), np.zeros(5)
    known = np.full(n, -1)
    met = known.copy()
    sgd.take_steps(sgd.step_arguments(rows, outside, gains, met, known), rows, order)
    nearest = plain_steps(X, outside, gains, order, U, A, 3, 0, K, faces, tally)
    if nearest < (1e-5 if dtype == np.float32 else 1e-13):
        return  # rounding may choose another face
    close = 1e-4 if dtype == np.float32 else 1e-12
    assert sgd.U == pytest.approx(U, rel=close, abs=close * np.abs(U).max())
    assert sgd.A == pytest.approx(A, rel=close, abs=close * np.abs(A).max())
    assert met.tolist() == faces.tolist()
    assert sgd.tally[[LOSS, MOVED, AVERAGE]] == pytest.approx(tally[[LOSS, MOVED, AVERAGE]], rel=close)
    assert sgd.steps[0] == len(order)


@pytest.mark.parametrize("K", [1, 3, 9])
def test_entropies_are_of_the_counts(K):
    """Entropies that follow each change drift by rounding, and are summed anew after each call."""
    rng = np.random.default_rng(K)
    rows, _ = whole_samples(rng, "dense", 40, 5)
    sgd = CpmSgd(5, K, perplexity=0.9 * K)
    known = np.full(40, -1)
    run = sgd.step_arguments(rows, rng.random(40) < 0.5, np.ones(40), np.full(40, -1), known)
    for _ in range(20):
        assert sgd.take_steps(run, rows, rng.permutation(40)) == 40
        used = np.bincount(known[known >= 0], minlength=K)
        assert sgd.counts.tolist() == used.tolist()
        assert sgd.tally[COUNTED] == used.sum()
        assert sgd.tally[COUNT_LOG_SUM] == pytest.approx(used @ np.log(np.maximum(used, 1)), rel=1e-14)


@pytest.mark.parametrize("dtype", WEIGHTS)
@pytest.mark.parametrize("form", ["packed", "packed single", "packed bytes"])
def test_columns_beyond_16_bits(form, dtype):
    """Rows of so many features have their columns in int32."""
    rng = np.random.default_rng(0)
    X = whole_samples(rng, form, 6, 9)[1].astype(FORMS[form][0])
    X = sp.hstack([sp.csr_array(X), sp.csr_array((6, WIDE - 10), dtype=X.dtype), X[:, :1]], format="csr")
    rows = rows_anywhere(rng, X)
    assert rows.columns.dtype == np.int32
    outside, gains, order = np.arange(6) < 3, np.ones(6), np.array([0, 3, 1, 4, 4, 0])
    sgd = CpmSgd(WIDE, 3, average=False, dtype=dtype)
    U, faces, tally = sgd.U.astype(float), np.full(6, -1), np.zeros(5)
    sgd.take_steps(sgd.step_arguments(rows, outside, gains, np.full(6, -1), np.full(6, -1)), rows, order)
    plain_steps(X.astype(float), outside, gains, order, U, None, 0, 0, 3, faces, tally)
    assert np.abs(sgd.U - U).max() <= (1e-4 if dtype == np.float32 else 1e-12) * np.abs(U).max()


@drawn_calls("cpm_losses", form=FORMS, K=[1, 2, 3, 9, 70], m=[0, 1, 2, 3, 4, 5, 8], n=range(1, 36))
def test_losses_are_those_of_numpy(rng, form, K, m, n):
    """Hinge losses and assignments of every form of samples."""
    rows, X = whole_samples(rng, form, n, m)
    W = rng.normal(size=(K, m + 1))
    outside, C = anywhere(rng, rng.random(n) < 0.5, rng.uniform(0.5, 2.0, n))
    scores = 0.25 * X @ W[:, :-1].T + W[:, -1]
    hinges = np.where(outside, np.maximum(1 - scores.max(axis=1), 0), np.maximum(1 + scores, 0).sum(axis=1))
    assert losses(W, rows, outside, C, 0.25) == pytest.approx(C @ hinges, rel=1e-12)


def entropy(entries):
    """That of the faces which some positives have; -1 is none."""
    counts = np.unique(entries[entries >= 0], return_counts=True)[1]
    shares = counts / counts.sum()
    return -(shares * np.log(shares)).sum()


def plain_assignment(scores, natural, i, floor, unadjusted):
    """The natural face, or the best of those that raise the entropy if it would be under the floor."""

    def entropy_with(face):
        return entropy(np.where(np.arange(len(unadjusted)) == i, face, unadjusted))

    if entropy_with(natural) >= floor - 1e-9:
        return natural
    raising = [k for k in range(len(scores)) if entropy_with(k) > entropy(unadjusted) + 1e-9]
    return max(raising, key=lambda k: scores[k], default=natural)


@drawn_calls("cpm_assign", n=range(1, 13), K=[1, 2, 5, 9])
def test_assignments_are_algorithm_2(rng, n, K):
    """Each call is Algorithm 2, and counts and entropy follow."""
    unadjusted, counts, tally = anywhere(rng, np.full(n, -1)), np.zeros(K, dtype=np.int64), np.zeros(5)
    phi, floor = np.arange(n + 2) * np.log(np.maximum(np.arange(n + 2), 1)), rng.uniform(0.0, np.log(K))
    for i in rng.integers(0, n, 6):
        scores = anywhere(rng, rng.normal(size=K))
        natural, known = int(scores.argmax()), unadjusted.copy()
        expected = plain_assignment(scores, natural, i, floor, known)
        assert assign(scores, natural, i, floor, unadjusted, counts, phi, tally) == expected
        known[i] = natural
        assert unadjusted.tolist() == known.tolist()
        assert counts.tolist() == np.bincount(known[known >= 0], minlength=K).tolist()
        assert tally[COUNTED] == counts.sum()
        assert tally[COUNT_LOG_SUM] == pytest.approx(phi[counts].sum(), abs=1e-12)


def test_no_samples_are_no_steps():
    """Neither an empty order nor rows without entries read anything."""
    rows = as_rows(sp.csr_array((3, 4)))
    sgd = CpmSgd(4, 2, dtype=np.float64)
    before = sgd.U.copy()
    unseen, outside = np.full(3, -1), np.array([True, False, True])
    arguments = sgd.step_arguments(rows, outside, np.ones(3), unseen, unseen.copy())
    sgd.take_steps(arguments, rows, np.zeros(0, dtype=np.int64))
    assert sgd.U.tolist() == before.tolist()
    sgd.take_steps(sgd.step_arguments(rows, outside, np.ones(3), unseen, unseen.copy()), rows, np.arange(3))
    assert sgd.U[:-1].tolist() == before[:-1].tolist()
    assert sgd.U[-1].tolist() != before[-1].tolist()


def test_results_do_not_depend_on_alignment():
    """Weights that start at an odd multiple of their size get the same bits."""
    rows, _ = whole_samples(np.random.default_rng(0), "dense", 12, 13)
    found = set()
    for start in range(3):
        sgd = CpmSgd(13, 20, dtype=np.float64)
        sgd.U = placed(sgd.U, start)
        unseen = np.full(12, -1)
        arguments = sgd.step_arguments(rows, np.arange(12) < 6, np.ones(12), unseen, unseen.copy())
        sgd.take_steps(arguments, rows, np.arange(12))
        found.add(sgd.U.tobytes())
    assert len(found) == 1


def test_one_face_answers_whatever_the_floor():
    """Algorithm 2 has no other face, and counts each positive once."""
    unadjusted, counts, tally = np.full(4, -1), np.zeros(1, dtype=np.int64), np.zeros(5)
    phi = np.arange(7) * np.log(np.maximum(np.arange(7), 1))
    for i in (2, 0, 2):
        assert assign(np.array([0.5]), 0, i, 5.0, unadjusted, counts, phi, tally) == 0
    assert (unadjusted.tolist(), counts.tolist()) == ([0, -1, 0, -1], [2])


def test_lanes_are_padded_with_zeros():
    """The columns that fill a vector register are 0."""
    W = np.arange(6.0).reshape(2, 3)
    lanes = in_lanes(W, np.float32)
    assert lanes.shape == (3, 8)
    assert lanes[:, :2].T.tolist() == W.tolist()
    assert not lanes[:, 2:].any()
