"""Faces as weights of a table's own columns: of numbers, of gaps in them, and of texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from polyopt.answers.plan import Plan
from polyopt.answers.weighed import Bend, Curve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formulations.matrices import Array
    from polyopt.answers.form import Form

__all__ = ["ColumnWeights"]


@dataclass(frozen=True)
class ColumnWeights:
    """What the cells of a table add to the outputs of K faces.

    Attributes
    ----------
    weights : ndarray of shape (m, K)
        Of the columns of numbers.
    centres : ndarray of shape (m,)
        What is taken from a number first.
    b : ndarray of shape (K,)
        Outputs where nothing is added.
    gaps : mapping of int to ndarray of shape (K,)
        What a missing number adds, by column.
    levels : mapping of int to mapping of text to int
        Of a column of texts the row of each in its table, None for a missing one; others have row 0.
    tables : mapping of int to ndarray of shape (r, K)
        What the texts add.
    bends : mapping of int to Bend
        What numbers add besides, by column.
    curves : mapping of int to Curve
        What stands in place of numbers, by column.
    """

    weights: Array
    centres: Array
    b: Array
    gaps: Mapping[int, Array] = field(default_factory=dict)
    levels: Mapping[int, Mapping[str | None, int]] = field(default_factory=dict)
    tables: Mapping[int, Array] = field(default_factory=dict)
    bends: Mapping[int, Bend] = field(default_factory=dict)
    curves: Mapping[int, Curve] = field(default_factory=dict)

    def plan(self, form: Form) -> Plan:
        """The pass over the columns that add something.

        Parameters
        ----------
        form : Form
            How the outputs become one score.
        """
        used = {k for k, own in enumerate(self.weights) if own.any()}
        used |= {k for k, own in self.gaps.items() if own.any()}
        used |= {k for k, bend in self.bends.items() if bend.changes.any()}
        used |= {k for k, table in self.tables.items() if table.any()}
        places = np.array(sorted(used), dtype=np.int64)
        at = {int(k): p for p, k in enumerate(places)}
        return Plan(
            places, self.centres[places], self.weights[places],
            {at[k]: own for k, own in self.gaps.items() if k in at},
            {at[k]: table for k, table in self.tables.items() if k in at}, self.b, form,
            {at[k]: bend for k, bend in self.bends.items() if k in at},
            {at[k]: curve for k, curve in self.curves.items() if k in at},
        )  # fmt: skip
