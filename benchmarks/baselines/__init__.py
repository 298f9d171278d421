"""Baseline classifiers: for the papers' tables; not advertised as more.

They are the rivals that the papers on polyhedral and large-margin classifiers compare themselves
with, written so that the tables can be made again. They have no program and no certificate.
"""

from __future__ import annotations

from benchmarks.baselines.amm import AdaptiveMultiHyperplaneMachine
from benchmarks.baselines.oc1 import ObliqueTree

__all__ = ["AdaptiveMultiHyperplaneMachine", "ObliqueTree"]
