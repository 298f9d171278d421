"""Solutions of other packages, and how far they are from the optimum, proven.

``answer`` reads what a package answered (arrays, and fitted objects of scikit-learn, LIBSVM and LIBLINEAR) in
our terms; ``certify`` certifies the answer for a program.
"""

__all__ = ["PROGRAMS"]

_KERNEL = ("kernel", "gamma", "degree", "coef0")
PROGRAMS = {
    "svm": ("C", *_KERNEL, "intercept"),
    "rmm": ("C", "B", *_KERNEL),
    "soft-rmm": ("C", "B", "D", *_KERNEL),
    "sigma-svm": ("C", "D"),
    "cpm": ("C", "loss", "margin"),
}
"""The programs that a solution can be certified for, and the settings of each."""
