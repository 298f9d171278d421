"""Every built-in set by ``polyopt compare --global``: how far each solver ends from a bound on all points.

The Convex Polytope Machine with three faces, C = 1, on three quarters of each set: the best of the
alternation's twenty starts and one more from dual ascents ("exact"), one stochastic run ("SGD"), the best of
twenty dual ascents ("dual"), and the search over all assignments ("global"), which has 60 seconds of the
clock for a set. Of the digits all is the sum over 45 machines, one for each pair, which have these seconds
together. A gap is relative, from the solver's own objective to the one bound that the search proved, so that
no solver is further from the optimum than that. Seconds are of the clock, as the command prints them; other
work on the machine makes them longer, and what the search proves less. In the picture a line is the search,
from its best point to its bound as they were (of the digits there is none), and a mark is where a solver
ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from polyopt.base.files import replacing
from polyopt.compare import compare
from polyopt.datasets import built_in

if TYPE_CHECKING:
    from polyopt.compare.results import Proof

PICTURE = Path(__file__).parent / "results" / "compare_global.png"
_TITLES = {"exact": "exact, 20 starts", "sgd": "SGD", "dual": "dual", "global": "global"}


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per set: objectives, bound, gaps and seconds."""
    names = ["sonar"] if smoke else built_in()
    found = compare(names, ["cpm"], prove=True, time_limit=1.0 if smoke else None)
    proofs = found.proofs()
    if not smoke:
        _draw(proofs)
    sizes = {data.name: data.X_train.shape for data in found.datasets}
    return pd.DataFrame([_row(proof, *sizes[proof.data]) for proof in proofs])


def _row(proof: Proof, n: int, m: int) -> dict[str, object]:
    row: dict[str, object] = {"data": proof.data, "n": n, "features": m}
    own = {solver: title for solver, title in _TITLES.items() if solver in proof.objectives}
    row |= {title: proof.objectives[solver] for solver, title in own.items()}
    row["proven bound"] = proof.bound
    row |= {f"{title}, gap %": 100 * proof.gaps[solver] for solver, title in own.items()}
    row["least gap %"] = 100 * min(proof.gaps.values())
    return row | {f"{title}, s": proof.seconds[solver] for solver, title in own.items()}


def _draw(proofs: list[Proof]) -> None:
    from polyopt.plots import gaps

    runs = {proof.data: proof.run for proof in proofs}
    ends = {
        proof.data: {_TITLES[solver]: (proof.seconds[solver], gap) for solver, gap in proof.gaps.items()}
        for proof in proofs
    }
    with replacing(PICTURE) as stream:
        gaps(runs, ends, title="Gap to the bound on all assignments").savefig(stream, dpi=110)
