"""Why single lines of the conditions of optimality are as they are."""

import numpy as np
import pytest

from formulations import svm
from formulations.class_faces import Owners
from formulations.optimality import conditions
from formulations.samples import separated_clusters, two_blobs


@pytest.mark.parametrize("C", [1e-5, 1.0, 1e5])
def test_signs_are_relative_to_the_largest_multiplier_however_small_all_are(C):
    X, y = two_blobs(n=20, m=2, seed=0)
    program = svm.primal(X, y, C)
    found = program.solve()
    duals = {row.name: np.array(found.duals[row.name]) for row in program.rows}
    largest = max(np.abs(mu).max() for mu in duals.values())
    duals["margin"][0] = -0.01 * largest
    (sign,) = (each for each in conditions(program, found.primal, duals).parts
               if (each.kind, each.row) == ("sign", "margin"))  # fmt: skip
    assert sign.scale == pytest.approx(largest)
    assert sign.relative == pytest.approx(0.01)


def test_samples_around_a_core_know_their_cluster_and_the_core_has_none():
    _, y, cluster = separated_clusters(n=9, seed=1)
    assert cluster[y < 0].tolist() == [-1] * (y < 0).sum()
    assert sorted(set(cluster[y > 0])) == [0, 1, 2]


def test_the_sample_that_was_given_a_face_of_the_other_class_is_named():
    owners, y = Owners(1, 1), np.array([1.0, -1.0, 1.0, -1.0])
    assert owners.answers(y, [1, 0, 1, 0]).tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="gives sample 2 face 0"):
        owners.answers(y, [1, 0, 0, 1])
