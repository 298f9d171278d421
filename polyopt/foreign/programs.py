"""The programs that another package's solution can be held to."""

from __future__ import annotations

__all__ = ["PROGRAMS"]

_KERNEL = ("kernel", "gamma", "degree", "coef0")
PROGRAMS = {
    "svm": ("C", *_KERNEL, "intercept"),
    "rmm": ("C", "B", *_KERNEL),
    "soft-rmm": ("C", "B", "D", *_KERNEL),
    "sigma-svm": ("C", "D"),
    "cpm": ("C", "loss", "margin"),
}
"""The programs, and the settings of each."""
