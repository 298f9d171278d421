"""The entries of the machines with a loss of their own: the hard-margin loss."""

from __future__ import annotations

from polyopt.methods.method import Method

__all__ = ["ENTRIES"]

ENTRIES = (
    Method(
        "hml-svm",
        "SVM with the hard-margin loss",
        settings={"C": 1.0},
        families={"hard_margin_loss": "formulations.hard_margin_loss"},
        programs=("hard_margin_loss.mixed_integer", "hard_margin_loss.relaxation_dual"),
        duals_of="hard_margin_loss.pattern",
        home="polyopt.estimators.hard_margin_loss.HardMarginLossSVM",
        fast="ce",
        proving="global",
        is_integer=True,
        slopes="polyopt.sensitivity.hard_margin_loss.of_hard_margin_loss",
        crosschecks=("polyopt.crosschecks.hard_margin_loss",),
        exports={"certify_hard_margin_loss": "polyopt.certificates"},
    ),
)
"""Each method."""
