"""The programs that a point can be certified for: settings, the parts of a point, and multipliers."""

from collections.abc import Mapping
from dataclasses import dataclass

KERNEL = ("kernel", "gamma", "degree", "coef0")
_FACES = ("W",)
_EXPANSION = ("alpha", "b")


@dataclass(frozen=True)
class CertifiedProgram:
    """A row of the table: what a point of the program consists of, and what certifies it.

    settings: names of the program's numbers and options, keywords of :func:`certify`.
    variables: the parts of a point; an array alone is the first of them.
    rows: the constraints whose multipliers are taken, each with its argument of `function`.
    function: module and name of the function that certifies the point for labels -1 and +1; none for hinge
        programs and the Convex Polytope Machine, which are certified here.
    has_kernel: the function takes the kernel matrix K in the place of the samples, and bounds on its errors.
    """

    settings: tuple[str, ...]
    variables: tuple[str, ...]
    rows: Mapping[str, str]
    function: str = ""
    has_kernel: bool = False


_LPS, _CELLS = "polyopt.polyhedral.lp_certificate", "polyopt.polyhedral.logistic_certificate"
_PLANE = ("w", "b")
_ALPHA = {"margin": "alpha"}
_BOUNDS = {**_ALPHA, "bound_above": "lam", "bound_below": "lam_star"}

PROGRAMS = {
    "svm": CertifiedProgram(("C", *KERNEL, "intercept"), _PLANE, _ALPHA),
    "rmm": CertifiedProgram(("C", "B", *KERNEL), _PLANE, _BOUNDS),
    "soft-rmm": CertifiedProgram(("C", "B", "D", *KERNEL), _PLANE, _BOUNDS),
    "sigma-svm": CertifiedProgram(("C", "D"), _PLANE, _ALPHA),
    "cpm": CertifiedProgram(("C", "loss", "margin"), _FACES, _ALPHA),
    "polyceptron": CertifiedProgram(
        ("C", "radius", "assignment", "global_bound"), _FACES, {"margin": "u"}, f"{_LPS}.certify_polyceptron"
    ),
    "pc-slp": CertifiedProgram(
        ("C", "radius", "assignment"), _FACES, {"inside": "u", "outside": "q"}, f"{_LPS}.certify_pc_slp"
    ),
    "spla1": CertifiedProgram(
        ("C", "ridge", "positives", "assignment", "n_faces"), _FACES, {}, f"{_CELLS}.certify_spla1"
    ),
    "plume": CertifiedProgram(
        ("C", "gamma", "ridge", "responsibilities"), _FACES, {}, f"{_CELLS}.certify_plume"
    ),
    "logistic": CertifiedProgram(
        ("C", "n_faces", "ridge", "bias_ridge", "l1", "group", "groups", "assignment", "support", "signs"),
        _FACES, _ALPHA, f"{_CELLS}.certify_logistic_polytopes",
    ),
    "one-norm": CertifiedProgram(
        ("C", *KERNEL), _EXPANSION, {"margin": "u"}, "polyopt.sparse.certificate.certify_one_norm", True
    ),
    "l0": CertifiedProgram(
        ("C", *KERNEL, "bound"), _EXPANSION, {"margin": "u", "relaxation": "v"},
        "polyopt.sparse.certificate.certify_l0", True,
    ),
}  # fmt: skip
"""The programs by name; their numbers are defined in :mod:`formulations`."""
