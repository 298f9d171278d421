"""Passes over the samples: everything in an iteration that is neither a product nor a factorisation.

They are compiled (``native/interior_point.c``).

The families of rows come in two lots: S with slack, then those without. In Z are the multipliers and in T the
slacks that each is complementary to. A family with slack has two rows in either, (mu, eta) and (s, xi), and a
family without slack one, mu and s. With the outputs f and each family's side and kink,

    side f + xi − s = kink,    mu + eta = cap,    and without slack    side f − s = kink,

of which the second holds throughout and the others are approached. A sample with a cap of 0 has no such row;
a row without slack is none where its multiplier is 0.
`aim` is what a Newton step would add to each product of Z and T; the centre of reference has products
proportional to the cap (without slack, to the mean cap), so that a weight of 2 is the same as two copies of
a sample.

`ease` is a dual proximal term: a step may leave each row unmet by `ease` times the change of its
multiplier. In the limit nothing changes, but no weight in D passes 1/ease; where one did, the rounding
of an output times that weight would drown X'β = Rw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from formulations.language.types import Vector

__all__ = ["Direction", "PrimalDual", "condense", "cost", "direct", "step", "step_apart", "target", "weigh"]


class PrimalDual(Struct):
    """A primal-dual point of some samples, and their families of rows, those with slack first.

    Attributes
    ----------
    sides : ndarray of int8, shape (q, n)
        -1 and +1.
    kinks : ndarray of shape (q,)
    caps : ndarray of shape (S, n)
        Of the families with slack.
    f : ndarray of shape (n,)
        Outputs.
    Z, T : ndarray of shape (r, n)
        Multipliers and slacks, r = S + q.
    """

    sides: NDArray[np.int8]
    kinks: Vector
    caps: Vector
    f: Vector
    Z: Vector
    T: Vector

    signature = "sides: i1 (q, n); kinks: f8 (q); caps: f8 (s, n); f!: f8 (n); Z!: f8 (r, n); T!: f8 (r, n)"


class Direction(Struct):
    """A direction of a point, and what it was made for.

    Attributes
    ----------
    aim : ndarray of shape (r, n)
        By how much a Newton step is to change each product of Z and T.
    df : ndarray of shape (n,)
        Change of the outputs.
    dZ, dT : ndarray of shape (r, n)
        Changes of the multipliers and slacks that go with it.
    """

    aim: Vector
    df: Vector
    dZ: Vector
    dT: Vector

    signature = "aim!: f8 (r, n); df!: f8 (n); dZ!: f8 (r, n); dT!: f8 (r, n)"


# Fill d, the diagonal of D, and the columns beta and room of V (by how much beta can fall and rise).
# found: the linear part of the dual objective; its loss when beta falls by its room everywhere; the sum of
# all products; the largest product (in units of its kink, where that is more than 1); the largest multiplier;
# the largest violation of a row.
weigh = kernel("weigh", "point: PrimalDual; ease: f8; d!: f8 (n); V!: f8 (n, k); found!: f8 (o)")

# Fill a column of V with h, where beta changes by h − D df.
condense = kernel("condense", "point: PrimalDual; ease: f8; way: Direction; V!: f8 (n, k); column: i8")

# Fill dZ and dT, the directions that go with df. found: the step at which the first multiplier or slack
# reaches zero (infinite if none does); the products' change per step and per squared step, summed.
direct = kernel("direct", "point: PrimalDual; ease: f8; way: Direction; found!: f8 (o)")

# Aim at products of mu per unit of cost (of `mean` for rows without slack); less `second` times what dZ and
# dT would add to them.
target = kernel("target", "point: PrimalDual; way: Direction; mean: f8; mu: f8; second: f8")

# Move everything by the same step.
step = kernel("step", "point: PrimalDual; way: Direction; length: f8")

# Move the outputs by the whole step, and each sample by it or else by this share of the way to its own end.
step_apart = kernel("step_apart", "point: PrimalDual; way: Direction; share: f8")

# Cost of the least slacks of the outputs times `shrink`.
cost = kernel("cost", "point: PrimalDual; shrink: f8", returns="f8")
