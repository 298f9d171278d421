"""At most s features in each face: which are the largest, what a node leaves, and how weights are shared."""

import numpy as np
import pytest

from polyopt.solvers.choices import Choices, most_of


def bits(*places):
    return np.isin(np.arange(8), places)


def test_the_largest_of_each_face_and_what_a_node_leaves():
    two = Choices(8, 2, 2)
    assert (two.width, two.s, two.most) == (4, 2, 4)
    assert Choices(8, 9, 2).s == 4
    assert two.largest(np.array([3.0, 1.0, 2.0, 0.0, 0.0, 5.0, 0.0, -1.0])).tolist() == [0, 2, 5]
    assert two.largest(np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])).tolist() == [0, 1]
    assert two.of_faces(np.arange(10)).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    # A face that has s features has no room for others.
    assert np.flatnonzero(two.closed(bits(0, 1, 4), bits(5))).tolist() == [2, 3, 5]
    assert two.only(bits(0, 1, 4), bits(5)) is None
    assert two.only(bits(0, 1, 4), bits(5, 6)).tolist() == [0, 1, 4, 7]
    assert two.only(bits(), bits(0, 1, 4, 5, 6)).tolist() == [2, 3, 7]


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_a_sum_are_the_best_ones(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.0, 1.0, 6) ** 3
    sizes[0] = 5.0
    for total in (1, 2, 4, 5):
        z = most_of(sizes, total)
        assert z.sum() == pytest.approx(total)
        assert ((z > 0.0) & (z <= 1.0)).all()
        least = (sizes**2 / z).sum()
        for _ in range(30):
            other = np.clip(z + 0.1 * rng.normal(size=6), 1e-6, 1.0)
            other *= total / other.sum()
            if other.max() <= 1.0:
                assert (sizes**2 / other).sum() >= least - 1e-12
    assert most_of(sizes, 0).tolist() == [0.0] * 6
    assert most_of(np.zeros(3), 2).tolist() == [0.0] * 3
    assert most_of(np.array([2.0, 2.0, 0.0]), 2).tolist() == [1.0, 1.0, 0.0]
