"""Every program in the notation of its paper, primal and dual side by side.

A family of programs is a module with a function ``pairs(seed)``, which states its programs on small random
data, and ``singles(seed)`` for those without a dual. ``polyopt show rmm`` prints the programs of a family;
``language`` is the language in which they are written: a ``Program`` has named constraints, its rows
(``Row``), each with its printed text and the meaning of its multiplier, and a ``Duality`` joins a primal, its
dual and the function that recovers primal variables from those of the dual.

Everywhere X (n, m) are the samples, an array or a CSR matrix, y (n,) their labels -1 and +1, and C is the
cost of slack, one number or one per sample. In programs for kernels a Gram matrix K (n, n) is in place of X.
For machines of several faces, K is the number of faces, ``n_faces``, and the assignment (n,) is the face of
each sample.
"""

from importlib import import_module
from types import ModuleType

FAMILIES = {
    "svm": "formulations.svm",
    "sigma_svm": "formulations.sigma_svm",
    "rmm": "formulations.rmm",
    "soft_rmm": "formulations.rmm",
    "rmm_bounded": "formulations.rmm_bounded",
    "rmm_bounds": "formulations.error_bounds.rmm_bounds",
    "cpm": "formulations.cpm",
    "cpm_worst": "formulations.cpm",
    "cpm_margin": "formulations.cpm_margins",
    "cpm_hard": "formulations.cpm_margins",
    "cpm_sparse": "formulations.cpm_sparse",
    "cpm_subset": "formulations.cpm_faces",
    "cpm_integer": "formulations.cpm_faces",
    "polyceptron": "formulations.polyceptron",
    "spla1": "formulations.spla1",
    "pc_slp": "formulations.pc_slp",
    "plume": "formulations.plume",
    "logistic_polytopes": "formulations.logistic_polytopes",
    "l0": "formulations.l0",
    "one_norm": "formulations.one_norm",
}
"""The module of each family. The names of a family's programs begin with its name, such as ``rmm.qp``."""


def family(name: str) -> ModuleType:
    """Import and return a family's module; in `name` a hyphen may stand for the underscore."""
    module = FAMILIES.get(name.replace("-", "_"))
    if module is None:
        raise ValueError(f"the families are {', '.join(FAMILIES)}, not {name!r}")
    return import_module(module)
