"""``polyopt info``."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.base.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyopt.models import Model

__all__ = ["info", "size_text"]

_UNKNOWN = "not known: the file is of the first version"


def info(
    model: Annotated[Path, typer.Argument(help="Model saved by polyopt fit.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON instead.")] = False,
) -> None:
    """Print what a saved model is: method, parameters, what was proven, features, classes, data, versions."""
    import json
    import textwrap

    from polyopt.base.files import check_is_file
    from polyopt.cli.console import output
    from polyopt.cli.deferred import load_saved

    check_is_file(model, "model")
    found = _facts(load_saved(model), model.stat().st_size)
    if as_json:
        typer.echo(json.dumps(found, indent=2, allow_nan=False, default=str))
        return
    pairs = list(_lines(found))
    width = max(len(name) for name, _ in pairs)
    room = max(output().width - width - 2, 20)
    for name, text in pairs:
        lines = textwrap.wrap(visible(text), room, break_long_words=False, break_on_hyphens=False)
        for heading, line in zip_longest([name], lines, fillvalue=""):
            typer.echo(f"{heading:<{width}}  {line}".rstrip())


def size_text(size: int) -> str:
    """A size in bytes as people read it."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000.0:
            return f"{amount:.3g} {unit}" if unit != "B" else f"{size} B"
        amount /= 1000.0
    return f"{amount:.3g} GB"


def probabilities_of(machine: object) -> str:
    """Describe the probabilities of a fitted machine."""
    if not hasattr(machine, "predict_proba"):
        return "none"
    parts = getattr(machine, "estimators_", [machine])
    curves: list[Any] = [getattr(part, "calibration_", None) for part in parts]
    if any(curve is None for curve in curves):
        return "the model's own"
    if len(curves) > 1:
        return f"calibrated, {curves[0].method}, for each of {len(curves)} pairs of classes"
    return f"calibrated, {curves[0].method}, on samples held out"


def _facts(model: Model, size: int) -> dict[str, Any]:
    """Contents of a model file, as plain values for JSON."""
    from polyopt.methods import find_method

    facts: dict[str, Any] = dict(model.facts)
    classes = [value if isinstance(value, (bool, int, str)) else float(value) for value in _classes(model)]
    claim = facts.get("claim")
    if isinstance(claim, dict):
        claim = {name: _number(value) for name, value in claim.items()}
    return {
        "method": model.method,
        "title": find_method(model.method).title,
        "settings": facts.get("settings"),
        "parameters": facts.get("parameters", {k: str(v) for k, v in model.estimator.get_params().items()}),
        "claim": claim,
        "status": facts.get("status"),
        "classes": classes,
        "probabilities": probabilities_of(model.estimator),
        "target": model.target,
        "n_features": model.n_features,
        "features": model.feature_names,
        "steps": [[name, type(step).__name__] for name, step in model.pipeline.steps],
        "data": facts.get("data"),
        "holds_data": model.holds_data,
        "fitted": facts.get("fitted"),
        "versions": facts.get("versions"),
        "size": size,
    }


def _classes(model: Model) -> list[Any]:
    found: list[Any] = model.estimator.classes_.tolist()
    return found


def _number(value: Any) -> Any:
    """A number that JSON has; what it has not as text."""
    import math

    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts, in the order of print."""
    yield "method", f"{found['method']}: {found['title']}"
    settings = found["settings"] or {}
    yield "settings", ", ".join(f"{name}={value}" for name, value in settings.items()) or _UNKNOWN
    yield "parameters", ", ".join(f"{name}={value}" for name, value in found["parameters"].items())
    claim = found["claim"]
    if isinstance(claim, dict):
        yield "claim", str(claim.get("sentence"))
        yield (
            "",
            ", ".join(
                f"{name.replace('_', ' ')} {claim.get(name)}"
                for name in ("primal", "bound", "gap", "relative_gap")
            ),
        )
    else:
        yield (
            "claim",
            "none: the fit was interrupted before it was certified" if found["fitted"] else _UNKNOWN,
        )
    yield "status", " ".join(map(str, found["status"] or [_UNKNOWN]))
    yield "classes", f"{len(found['classes'])}: {_some(found['classes'])}"
    yield "probabilities", found["probabilities"]
    yield "target", str(found["target"])
    named = "without names" if found["features"] is None else _some(found["features"])
    yield "features", f"{found['n_features']}: {named}"
    yield "steps", ", then ".join(f"{name} ({kind})" for name, kind in found["steps"])
    data = found["data"]
    if isinstance(data, dict):
        yield "data", f"{data.get('name')}: {data.get('samples')} samples, SHA-256 {data.get('sha256')}"
    else:
        yield "data", _UNKNOWN
    yield "holds data", "yes" if found["holds_data"] else "no (fit with --keep-data for it)"
    yield "fitted", str(found["fitted"] or _UNKNOWN)
    versions = found["versions"] or {}
    yield "versions", ", ".join(f"{name} {of}" for name, of in versions.items()) or _UNKNOWN
    yield "size", size_text(found["size"])


def _some(values: list[Any]) -> str:
    more = f", ... ({len(values)} in all)" if len(values) > 20 else ""
    return ", ".join(str(value) for value in values[:20]) + more
