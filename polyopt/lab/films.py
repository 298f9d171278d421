"""A path over one parameter as a film strip: a small picture of each value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.lab.fitting import fit_state
from polyopt.lab.picture import drawing
from polyopt.lab.samples import rows_held, samples_of

if TYPE_CHECKING:
    from formulations.clock import Clock
    from polyopt.lab.fitting import Fitted
    from polyopt.lab.state import State
    from polyopt.watch import Listener

    View = tuple[float, float, float, float]

__all__ = ["MOST_FRAMES", "film", "read_values"]

MOST_FRAMES = 24
_DECADES = 2.0  # to both sides of the state's own value
_FRAMES = 9


def read_values(state: State, parameter: object, values: object, count: object) -> list[float]:
    """The values of a path: as asked, or spread about the state's own.

    state: the state.
    parameter: A number among its settings.
    values: the values, or None.
    count: how many, where they are not given; None for 9.
    ValueError: what cannot be a path.
    """
    paths = state.machine.shown()["paths"]
    if parameter not in paths:
        raise ValueError(f"parameter must be one of {', '.join(paths)} for {state.machine.name}")
    setting = state.machine.settings[str(parameter)]
    if values is not None:
        if not isinstance(values, (list, tuple)) or not 1 <= len(values) <= MOST_FRAMES:
            raise ValueError(f"values must be a list of 1 to {MOST_FRAMES} numbers")
        return [float(setting.read(value)) for value in values]  # type: ignore[arg-type]
    number = _FRAMES if count is None else count
    if type(number) is not int or not 2 <= number <= MOST_FRAMES:
        raise ValueError(f"count must be a whole number from 2 to {MOST_FRAMES}")
    own = state.settings[setting.name]
    if not setting.log:
        return np.linspace(setting.low, setting.high, number + 2)[1:-1].tolist()
    middle = np.log10(float(own)) if own is not None else np.log10(max(setting.low, 1.0)) + _DECADES / 4
    wide = _DECADES if setting.low < 1.0 else _DECADES / 4  # a bound from 1 on is most telling near 1
    spread = np.logspace(middle - wide, middle + wide, number)
    return np.unique(np.clip(spread, setting.low, setting.high)).tolist()


def film(
    state: State, parameter: str, values: list[float], view: View, grid: tuple[int, int] | None, run: Clock,
    hear: Listener, tell: Callable[..., None],
) -> dict[str, Any]:  # fmt: skip
    """The small pictures; each is told as soon as it is there.

    state: what is the same for all of them.
    parameter: what differs.
    values: its values.
    run: by which it can be stopped: the pictures made by then are kept.
    hear, tell: hears solvers' records; tells the client how far it is.
    """
    frames: list[dict[str, Any]] = []
    for number, value in enumerate(values):
        if run.is_over and frames:
            break
        fitted = fit_state(replace(state, settings={**state.settings, parameter: value}), run, hear)
        frames.append({"value": value, **_frame(fitted, view, grid)})
        tell(
            share=(number + 1) / len(values),
            frame=frames[-1],
            number=number,
            text=f"{parameter} = {value:.4g}",
        )
    stopped = len(frames) < len(values)
    return {"kind": "path", "parameter": parameter, "frames": frames, "stopped": stopped}


def _frame(fitted: Fitted, view: View, grid: tuple[int, int] | None) -> dict[str, Any]:
    support = samples_of(rows_held(fitted), fitted)["support"]
    return {
        **drawing(fitted, view, grid),
        "support": sum(support),
        "certificate": fitted.certificate.to_dict(),
        "settings": fitted.shown_settings,
    }
