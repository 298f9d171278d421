"""A fitted model in a file: skops, which holds data and no code, and loads the types named here alone."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from formulations.families import Families, Family
from formulations.solution import Solution
from polyopt.estimators.calibration import Calibration
from polyopt.estimators.columns import Columns
from polyopt.files import check_is_file, write_bytes
from polyopt.methods import METHODS
from polyopt.models.model import Model

__all__ = ["load_model", "save_model"]

_FORMAT = "polyopt model, version 2"
_FIRST = "polyopt model, version 1"
# A file that grows by more than this factor, and beyond this size, was not made by a fit.
_GROWTH, _SIZE = 200, 1 << 26
_FOREIGN = "is not a model saved by 'polyopt fit'"


def _own_types() -> list[str]:
    """What a file may make besides plain containers, arrays and what skops itself trusts of scikit-learn."""
    own = (Solution, Families, Family, Calibration, Columns)
    kinds = (*own, sp.csr_matrix, np.dtype)  # an imputer keeps the type of its columns
    shared = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    return sorted(shared.union(*({method.home, *method.keeps} for method in METHODS.values())))


def save_model(model: Model, path: Path) -> None:
    """Write a model, with the training data that its machine holds; a file that is there is replaced.

    Parameters
    ----------
    model : Model
        A model; :meth:`polyopt.models.Model.without_data` leaves the data behind.
    path : Path
        The file.
    """
    import skops.io

    about = {
        "feature_names": model.feature_names,
        "target": model.target,
        "method": model.method,
        "facts": dict(model.facts),
    }
    content = {"format": _FORMAT, "about": json.dumps(about), "pipeline": model.pipeline}
    write_bytes(path, skops.io.dumps(content, compression=zipfile.ZIP_DEFLATED))


def load_model(path: Path) -> Model:
    """Read a model.

    Parameters
    ----------
    path : Path
        A file of :func:`save_model`, or of the first version of polyopt.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        When it is not a model of polyopt, is damaged, or would make anything a model has no need of.
    """
    check_is_file(path, "model")
    if not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            if stream.read(4) == b"PK\x03\x04":
                raise ValueError(f"{path} is damaged: its end is missing. Copy it again, or fit again")
        raise ValueError(f"{path} {_FOREIGN}. Pickles (joblib) are refused: loading one can run any code")
    try:
        _check_growth(path)
        content = _content(path)
    except _RefusedError as refusal:
        raise ValueError(f"{path} is refused: {refusal}") from None
    except Exception as error:  # of whichever kind: a damaged file raises all of them
        raise ValueError(
            f"{path} {_FOREIGN}, or it is damaged ({type(error).__name__}: {_short(error)})"
        ) from error
    found = content.get("format") if isinstance(content, dict) else None
    if found == _FORMAT:
        return _checked(_of_this_version(content, path), path)
    if found == _FIRST:
        return _checked(_of_the_first(content, path), path)
    if isinstance(found, str) and found.startswith("polyopt model, version "):
        raise ValueError(f"{path} was saved by a later polyopt ({found}), which this one cannot read")
    raise ValueError(f"{path} {_FOREIGN} of this version")


class _RefusedError(Exception):
    """What a file holds that no model needs."""


def _check_growth(path: Path) -> None:
    """Refuse a file that would fill the memory."""
    with zipfile.ZipFile(path) as archive:
        whole = sum(member.file_size for member in archive.infolist())
    if whole > _SIZE and whole > _GROWTH * path.stat().st_size:
        raise _RefusedError(f"it would grow from {path.stat().st_size} to {whole} bytes, as no model does")


def _content(path: Path) -> Any:
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    trusted = _own_types()
    try:
        return skops.io.load(path, trusted=trusted)
    except UntrustedTypesFoundException:
        foreign = sorted(set(skops.io.get_untrusted_types(file=path)) - set(trusted))
        raise _RefusedError(f"it holds {', '.join(foreign)}, which no model needs") from None


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:200]}..."


def _of_this_version(content: dict[str, Any], path: Path) -> Model:
    try:
        about = json.loads(content["about"])
        return Model(
            content["pipeline"], about["feature_names"], about["target"], about["method"], about["facts"]
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} {_FOREIGN}, or it is damaged ({_short(error)})") from error


def _of_the_first(content: dict[str, Any], path: Path) -> Model:
    """A file of version 1: the machine with its data, a scaler, and nothing known of the fit."""
    try:
        scaler = content["scaler"]
        return Model.of(
            content["estimator"],
            [] if scaler is None else [("scaler", scaler)],
            feature_names=content["feature_names"],
            target=content["target"],
            method=content["method"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} {_FOREIGN}, or it is damaged ({_short(error)})") from error


def _are_facts(facts: object) -> bool:
    """Whether what was written down at the fit has the form in which it is."""
    mappings = ("settings", "parameters", "claim", "data", "versions")
    return (
        isinstance(facts, dict)
        and all(isinstance(facts.get(name), dict | None) for name in mappings)
        and isinstance(facts.get("status"), list | None)
    )


def _checked(model: Model, path: Path) -> Model:
    """Refuse a file whose parts are not those of a model."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    names = model.feature_names
    try:
        ours = METHODS[model.method].estimator_class
        is_whole = (
            isinstance(model.pipeline, Pipeline)
            and isinstance(model.estimator, ours)
            and isinstance(model.target, str | int)
            and _are_facts(model.facts)
            and (names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names)))
        )
        if is_whole:
            check_is_fitted(model.estimator)
            is_whole = names is None or len(names) == model.n_features
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(f"{path} {_FOREIGN}, or it is damaged ({_short(error)})") from error
    if not is_whole:
        raise ValueError(f"{path} {_FOREIGN}, or it is damaged: its parts are not those of a model")
    return model
