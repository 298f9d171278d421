"""What a long run tells on the way: a line a second, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

__all__ = ["printer"]

_UNITS = ("iteration", "round", "epoch", "pass")


def printer(title: str, every: float = 1.0) -> Callable[[Mapping[str, float]], None]:
    """A ``progress`` for solvers: prints their records after a title, once in `every` seconds at most."""
    last = time.perf_counter()

    def show(record: Mapping[str, float]) -> None:
        nonlocal last
        if time.perf_counter() - last >= every:
            last = time.perf_counter()
            print(f"{title}: {describe(record)}", file=sys.stderr, flush=True)

    return show


def describe(record: Mapping[str, float]) -> str:
    """One record of a history as a phrase."""
    parts = [f"{record['seconds']:.1f} s"]
    parts += [f"{unit} {record[unit]:.0f}" for unit in _UNITS if unit in record]
    parts += [f"fit {record['fit']:.0f} of {record['of']:.0f}"] if "of" in record else []
    parts += [f"about {record['left']:.1f} s left"] if "left" in record else []
    parts += [f"violation {record['violation']:.2e}"] if "violation" in record else []
    if "objective" in record and "bound" not in record and record["objective"] == record["objective"]:
        parts += [f"objective {record['objective']:.6g}"]
    gap = record.get("objective", float("nan")) - record.get("bound", float("nan"))
    parts += [f"gap {gap:.2e}"] if gap == gap else []
    parts += [f"{record['rows']:,.0f} kernel rows"] if "rows" in record else []
    parts += [f"best {record['best']:.6g}"] if "best" in record else []
    parts += [f"elite up to {record['elite_threshold']:.6g}"] if "elite_threshold" in record else []
    parts += [f"{record['nodes']:,.0f} nodes"] if "nodes" in record else []
    return ", ".join(parts)
