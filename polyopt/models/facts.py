"""What is written down at a fit, as plain text and numbers."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from polyopt.estimators.status import solutions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polyopt.certificates.certificate import Certificate
    from polyopt.datasets import Dataset

__all__ = ["claim_of", "digest", "facts_of_fit"]


def digest(data: Dataset) -> str:
    """SHA-256 of the features, the labels and the names of the columns, as they were read.

    data: A data set; its test part does not count.
    """
    found = hashlib.sha256()
    X: Any = data.X
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    names = [] if data.feature_names is None else list(data.feature_names)
    for text in (repr(X.shape), repr(names), repr([str(label) for label in data.y])):
        found.update(text.encode("utf-8", "surrogatepass"))
    for part in parts:
        array = np.asarray(part)
        if array.dtype == object:  # columns of text
            found.update(repr(array.tolist()).encode("utf-8", "surrogatepass"))
        else:
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def claim_of(certificate: Certificate) -> dict[str, Any]:
    """What is proven, as text and numbers.

    certificate: of the model.
    """
    return {
        "sentence": certificate.sentence,
        "claim": certificate.claim.name.lower(),
        "program": certificate.program,
        "scope": certificate.scope,
        "primal": float(certificate.primal_value),
        "bound": float(certificate.dual_value),
        "gap": float(certificate.gap),
        "relative_gap": float(certificate.relative_gap),
        "tol": float(certificate.tol),
    }


def facts_of_fit(
    estimator: object,
    data: Dataset,
    certificate: Certificate | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a saved model says of its fit.

    Parameters
    ----------
    estimator : estimator
        The fitted machine.
    data : Dataset
        What it was fitted to.
    certificate : Certificate, optional
        What is proven of it.
    settings : mapping, optional
        The settings that were given or chosen; by default all parameters of the estimator.
    """
    asked: Any = estimator.get_params(deep=False)  # type: ignore[attr-defined]
    each = solutions_of(estimator) if hasattr(estimator, "solution_") else []
    n, m = data.X.shape
    packages = {"polyopt": "polyopt", "numpy": "numpy", "scikit-learn": "scikit-learn", "skops": "skops"}
    return {
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": python_version()} | {name: _version(of) for name, of in packages.items()},
        "data": {"name": data.name, "samples": int(n), "features": int(m), "sha256": digest(data)},
        "settings": {name: _plain(value) for name, value in (settings or asked).items()},
        "parameters": {name: _plain(value) for name, value in asked.items()},
        "status": sorted({str(one.status) for one in each}),
        "claim": None if certificate is None else claim_of(certificate),
    }


def _version(package: str) -> str:
    if package == "polyopt":
        import polyopt

        return str(polyopt.__version__)
    return version(package)


def _plain(value: Any) -> bool | int | float | str | None:
    """A parameter as JSON has it; what JSON has no word for as text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
