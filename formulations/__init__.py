"""The mathematics: every program in the notation of its paper, primal and dual side by side.

One module per family: ``svm``, ``sigma_svm``, ``rmm``, ``rmm_bounds``, ``cpm``, ``cpm_worst``,
``spla1``, ``plume``, ``polyceptron``, ``pc_slp``, ``one_norm``, ``l0``. Each runs by itself (``python -m
formulations.rmm``) and prints its programs and their demonstration.

Everywhere X (n, m) are the samples, an array or a CSR matrix, y (n,) their labels -1 and +1, C the cost of
slack, one number or one per sample, and K in its place (n, n) a Gram matrix. Of machines of several faces K
is their number, ``n_faces``, and the assignment (n,) says which face answers for a sample.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["FAMILIES", "family"]

FAMILIES = (
    "svm",
    "sigma_svm",
    "rmm",
    "soft_rmm",
    "rmm_bounds",
    "cpm",
    "cpm_worst",
    "spla1",
    "plume",
    "polyceptron",
    "pc_slp",
    "one_norm",
    "l0",
)


def family(name: str) -> ModuleType:
    """The module of a family, imported when asked for.

    Parameters
    ----------
    name : str
        One of :data:`FAMILIES`; a hyphen may stand for the underscore.
    """
    name = name.replace("-", "_")
    if name not in FAMILIES:
        raise ValueError(f"the families are {', '.join(FAMILIES)}, not {name!r}")
    return import_module(f"formulations.{name}")
