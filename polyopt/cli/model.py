"""A fitted model in a file: skops, which holds data and no code, and loads the types named here alone."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp

from formulations.families import Families, Family
from formulations.matrices import is_sparse
from formulations.solution import Solution
from polyopt.datasets import features_of, prepared_names
from polyopt.files import write_bytes
from polyopt.methods import METHODS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import StandardScaler

    from formulations.matrices import Matrix

__all__ = ["Model", "load_model", "save_model"]

_FORMAT = "polyopt model, version 1"


def _own_types() -> list[str]:
    """What a file may make besides plain containers, arrays and what skops itself trusts of scikit-learn."""
    shared = {
        f"{kind.__module__}.{kind.__qualname__}" for kind in (Solution, Families, Family, sp.csr_matrix)
    }
    shared.add("numpy.dtype")  # what the imputer and the encoder were fitted to
    return sorted(shared.union(*({method.home, *method.keeps} for method in METHODS.values())))


@dataclass(frozen=True)
class Model:
    """A fitted estimator and what it needs to read new data.

    Attributes
    ----------
    estimator : estimator
        Fitted to scaled features.
    scaler : StandardScaler or None
        The scaling; None for none.
    feature_names : list of str or None
        Names of the columns, in the order of the fit.
    target : str or int
        The label column of the file it was fitted to: its name, or its place.
    method : str
        Name of the method.
    preparation : ColumnTransformer or None
        What makes features of the columns, before the scaling; None where they are features.
    """

    estimator: Any
    scaler: StandardScaler | None
    feature_names: list[str] | None
    target: str | int
    method: str
    preparation: ColumnTransformer | None = None

    @property
    def n_features(self) -> int:
        """Number of columns of the file that are features."""
        made = self.estimator if self.preparation is None else self.preparation
        return int(made.n_features_in_)

    @property
    def names(self) -> list[str] | None:
        """Names of the features as the estimator has them; None where the file named none."""
        if self.preparation is None:
            return self.feature_names
        return prepared_names(self.preparation, self.feature_names)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Labels of samples whose features are as they were in the file."""
        X = features_of(self.preparation, X)
        if self.scaler is None:
            return self.estimator.predict(X)
        if self.scaler.with_mean and is_sparse(X):
            X = X.toarray()  # centred features are dense
        return self.estimator.predict(self.scaler.transform(X))


def save_model(model: Model, path: Path) -> None:
    """Write a model; a file that is there is replaced."""
    import skops.io

    write_bytes(path, skops.io.dumps({"format": _FORMAT, **vars(model)}))


def load_model(path: Path) -> Model:
    """Read a model.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        When it is not a model of polyopt, or would make anything a model has no need of.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is not a model saved by 'polyopt fit'. Pickles (joblib) are refused: "
            "loading one can run any code"
        )
    try:
        foreign = set(skops.io.get_untrusted_types(file=path)) - set(_own_types())
        if foreign:
            raise ValueError(
                f"{path} is refused: it holds {', '.join(sorted(foreign))}, which no model needs"
            )
        content = skops.io.load(path, trusted=_own_types())
    except (KeyError, TypeError, AttributeError, zipfile.BadZipFile, UntrustedTypesFoundException) as error:
        raise ValueError(
            f"{path} is not a model saved by 'polyopt fit' ({type(error).__name__}: {error})"
        ) from error
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError(f"{path} is not a model saved by 'polyopt fit' of this version")
    return Model(**content)
