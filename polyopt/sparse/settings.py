"""The settings of the cross-entropy method for the L0 machine."""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from formulations.language.arguments import whole
from polyopt.estimators.parameters import Settings
from polyopt.optim.cross_entropy import Rules, require


@dataclass(frozen=True, kw_only=True)
class CrossEntropySettings(Settings, Rules):
    """Settings of the search for the support vectors of a :class:`polyopt.CrossEntropySVM`.

    A pattern σ selects the samples that may be support vectors; L(σ) is its least loss. Each run draws
    patterns, ranks them by their scores 1'σ + C L(σ), moves the probabilities towards the supports of the
    best patterns, the elite, and ends with local search.

    Parameters
    ----------
    n_samples : int, default=100
        Patterns drawn in an iteration.
    rho : float, default=0.1
        Fraction of the drawn patterns that is elite, over 0 and at most 1.
    beta : float, default=0.5
        Smoothing of the probabilities, from 0 to under 1.
    patience : int, default=5
        Iterations in a row without a lower best score or elite threshold that end a run.
    max_iter : int, default=100
        Maximal number of iterations of a run.
    tol : float, default=1e-3
        A run ends when every probability is this close to 0 or 1; from 0 to under 0.5.
    n_init : int, default=1
        Number of runs; the best is kept.
    prior : {"relaxation"} or float, default="relaxation"
        Initial probabilities: the relaxation's α_j/C, clipped to [0.05, 0.95], or one number for all. Below
        0.1 a search may end at once if most good patterns have more support vectors than are drawn.
    flips : bool, default=True
        True if each run ends with local search: flips and swaps of single centres that lower the score.
    svm_screen : bool, default=False
        True if only support vectors of the SVM with the same C and kernel may be used, as in the slides.
        Few of the best centres are among them: ``candidates_bound_`` shows what the screen costs.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from polyopt import CrossEntropySettings
    >>> replace(CrossEntropySettings(n_samples=50), n_init=3)  # doctest: +ELLIPSIS
    CrossEntropySettings(n_samples=50, ... n_init=3, ...)
    """

    n_init: int = 1
    prior: str | float = "relaxation"
    flips: bool = True
    svm_screen: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("n_init", self.n_init)
        is_probability = isinstance(self.prior, Real) and 0 < self.prior < 1
        require(
            self.prior == "relaxation" or is_probability, "prior", self.prior,
            '"relaxation", or a number over 0 and under 1',
        )  # fmt: skip
        for name in ("flips", "svm_screen"):
            value = getattr(self, name)
            require(isinstance(value, bool | np.bool_), name, value, "True or False")
