"""Polytopes: the model files of the Convex Polytope Machine's authors (github.com/alkant/cpm).

Their descent minimises λ/2 Σ_k |w_k|² + mean_i c_i (loss of sample i), with λ as the file has it, the bias
among the weights, and c = 1/(1 + r) outside and r/(1 + r) inside, where r is the file's cost ratio. Times 2/λ
that is our program with the costs C_i = 2 c_i / (n λ). The file has six digits of each number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from polyopt.foreign.answer import Answer, Samples, label_among

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_polytope"]


def read_polytope(text: str, source: str, samples: Samples) -> list[Answer]:
    """The polytope in a model file, and the costs that it was trained with.

    Parameters
    ----------
    text : str
        The file.
    source : str
        What it is called.
    samples : Samples
        What it was trained on. Where the file has one dimension more, and no weight in the first, it was
        trained on an svmlight file, whose first column has the number 1.

    Raises
    ------
    ValueError
        A broken file, or other features.
    """
    fields = dict(re.findall(r"^([a-z ]+): *(\S+)", text, flags=re.MULTILINE))
    if fields.get("version") != "2" or fields.get("encoding") != "dense":
        raise ValueError(f"{source} is no model file of version 2 with a dense encoding")
    try:
        K, m, label = int(fields["hyperplanes"]), int(fields["dimensions"]), fields["outer label"]
        price, ratio = float(fields["lambda"]), float(fields["cost ratio"])
        numbers = np.array(text.partition("encoding: dense")[2].split(), dtype=float)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{source} is a broken model file ({error})") from None
    if K < 1 or m < 0 or len(numbers) != K * (m + 1) or not np.isfinite(numbers).all():
        raise ValueError(f"{source} is a broken model file: it has not {m} + 1 finite weights of {K} faces")
    if not (0.0 < price < np.inf and 0.0 <= ratio < np.inf):
        raise ValueError(
            f"{source} is a broken model file: lambda and cost ratio must be positive and finite"
        )
    W = numbers[: K * m].reshape(m, K).T
    if m == samples.m + 1 and not W[:, 0].any():
        W = W[:, 1:]
    if W.shape[1] != samples.m:
        raise ValueError(f"{source} has {m} features, and the data have {samples.m}")
    faces: NDArray[np.float64] = np.column_stack([W, numbers[K * m :]])
    low, high = samples.two(label_among(label, samples.classes))
    share = np.where(samples.y == high, 1.0 / (1.0 + ratio), ratio / (1.0 + ratio))
    costs = {"C": 2.0 / (samples.n * price)}
    return [Answer(source, faces=faces, labels=(low, high), costs=costs, weights=share)]
