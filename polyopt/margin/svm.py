"""The support vector machine.

The other machines of this package extend it: the Relative Margin Machine by bounds ±B on the outputs, the
Sigma-SVM by a weight D on their variance. It is the case of an infinite B, and of D = 0.
"""

from polyopt.estimators.parameters import estimator
from polyopt.margin.fit import HingeClassifier


@estimator
class SVM(HingeClassifier):
    """Support vector machine with an optimality certificate and dual variables.

    Minimises ``½||w||² + C Σ ξ_i`` subject to ``y_i (w'x_i + b) >= 1 - ξ_i``: eq. (1) of [1]_. The
    intercept is not penalised.

    References
    ----------
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008.

    Examples
    --------
    >>> from polyopt import SVM, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = SVM(C=10.0).fit(data.X, data.y)
    >>> print(f"{machine.score(data.X, data.y):.2f}")
    0.99
    >>> machine.certificate(tol=1e-3).is_optimal
    True
    """

    _title = "the SVM"
