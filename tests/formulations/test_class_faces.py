"""Whose the faces of two classes are: a wrong assignment is named."""

import numpy as np
import pytest

from formulations.class_faces import Owners


def test_a_sample_at_a_face_of_the_other_class_is_named():
    owners, y = Owners(1, 1), np.array([1.0, -1.0, 1.0, -1.0])
    assert owners.assignment_matrix(y, [1, 0, 1, 0]).tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="gives sample 2 face 0"):
        owners.assignment_matrix(y, [1, 0, 0, 1])
