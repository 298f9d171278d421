"""The margins of a fitted Convex Polytope Machine as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.polytope import face_margins

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from polyopt.estimators.cpm_fit import PolytopeLearner

__all__ = ["margins_frame"]


def margins_frame(machine: PolytopeLearner) -> pd.DataFrame:
    """One row for each polytope: outside, inside, worst, total, faces.

    machine: A fitted machine that holds its training data.
    """
    import pandas as pd

    columns = ["outside", "inside", "worst", "total", "faces"]
    return pd.DataFrame(_rows(machine), columns=columns)


def _rows(machine: PolytopeLearner) -> Iterator[tuple[object, object, float, float, int]]:
    parts = getattr(machine, "estimators_", None)
    for part in parts or [machine]:
        for side in part._sides or [part]:
            margins, samples = face_margins(side._scaled(side._X), side._y, side.solution_["W"])
            own = margins[samples > 0]
            labels = [side.outer_label_, side.inside_label_]
            if parts is not None:
                labels = [machine.classes_[code] for code in labels]  # a pair knows its classes by number
            yield labels[0], labels[1], float(own.min()), float(own.sum()), len(own)
