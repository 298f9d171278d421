"""What a search over the features of faces asks of them: at most s features in each face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Vector

    Bits = NDArray[np.bool_]
    Integers = NDArray[np.int64]

__all__ = ["Choices", "Fitted", "Proof", "Relaxed", "most_of"]


class Proof(NamedTuple):
    """A point on a path, w (m+K,) and ε, and the bound that its multipliers have; or w are multipliers."""

    w: Vector
    eps: float
    bound: float


class Fitted(NamedTuple):
    """Faces of given features: w (m+K,), biases last, their multipliers, their cost and its bound.

    `proof` is a point whose multipliers have about that bound, where the faces cost more than was asked. The
    multipliers are what :meth:`Choices.pull` takes: those of the samples, or the faces that they follow from.
    """

    features: Integers
    w: Vector
    alpha: Vector
    objective: float
    bound: float
    proof: Proof


class Relaxed(NamedTuple):
    """Of a node: w (m+K,) of the relaxation and what it costs there, and the bound on the node's faces.

    Where the value is less than what known faces cost, no multipliers can close the node.
    """

    w: Vector
    value: float
    proof: Proof


class Choices:
    """At most s features in each of K faces: m of them in all, those of one face side by side.

    Parameters
    ----------
    m : int
        Features, K times those of a face.
    s : int
        Features at most, of each face.
    n_faces : int
        K: faces that are chosen together.
    """

    def __init__(self, m: int, s: int, n_faces: int = 1):
        self.m, self.n_faces, self.width = m, n_faces, m // n_faces
        self.s = min(s, self.width)

    @property
    def most(self) -> int:
        """Features at most, of all faces."""
        return self.s * self.n_faces

    def of_faces(self, entries: NDArray[Any]) -> NDArray[Any]:
        """An entry for each feature as a row for each face."""
        return entries[: self.m].reshape(self.n_faces, self.width)

    def largest(self, sizes: Vector) -> Integers:
        """The features of the largest sizes, s of each face at most; none whose size is not positive."""
        order = np.argsort(-self.of_faces(sizes), axis=1, kind="stable")[:, : self.s]
        chosen = np.sort((order + self.width * np.arange(self.n_faces)[:, None]).ravel())
        return np.asarray(chosen[sizes[chosen] > 0.0])

    def closed(self, inside: Bits, out: Bits) -> Bits:
        """The features that are out, and with them the others of each face that has s already."""
        full = self.of_faces(inside).sum(axis=1) >= self.s
        return np.asarray(out | (np.repeat(full, self.width) & ~inside))

    def only(self, inside: Bits, out: Bits) -> Integers | None:
        """The features of a node's one largest choice; None where there are several."""
        left = ~self.closed(inside, out)
        return np.flatnonzero(left) if (self.of_faces(left).sum(axis=1) <= self.s).all() else None

    # -- what a machine knows --------------------------------------------------------------------

    def fit(
        self, features: ArrayLike, cutoff: float = np.inf, tol: float = 1e-9, w: Vector | None = None
    ) -> Fitted:
        """The best faces of these features, to a relative gap; or with a bound that is the cutoff already."""
        raise NotImplementedError

    def relax(
        self, inside: Bits, out: Bits, w: Vector, cutoff: float, share: float = 0.2, *, cold: bool = False
    ) -> Relaxed:
        """Bound all faces of a node, begun at w; to the cutoff, or to a share of the way there."""
        raise NotImplementedError

    def pull(self, alpha: Vector) -> Vector:
        """What multipliers pull at the weights and the biases, (m+K,)."""
        raise NotImplementedError


def most_of(sizes: Vector, total: int) -> Vector:
    """The z in [0, 1] with the sum `total` that minimise Σ sizes²/z: min(1, sizes/τ).

    Parameters
    ----------
    sizes : ndarray of shape (k,)
        Non-negative numbers.
    total : int
        The sum, less than k.
    """
    order = np.sort(sizes)[::-1]
    rest = np.cumsum(order[::-1])[::-1]  # of those from each place on
    for whole in range(total):
        tau = rest[whole] / (total - whole)
        if order[whole] <= tau:
            return np.asarray(np.minimum(1.0, sizes / tau)) if tau > 0 else np.zeros_like(sizes)
    return np.asarray(sizes >= order[total - 1], dtype=float) if total else np.zeros_like(sizes)
