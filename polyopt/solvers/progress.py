"""What a long run tells on the way: a line a second, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["printer"]


def printer(title: str, every: float = 1.0) -> Callable[[dict[str, float]], None]:
    """A ``progress`` for solvers: prints their records, no more often than each `every` seconds.

    Parameters
    ----------
    title : str
        What is being solved.
    every : float
        Seconds.
    """
    last = time.perf_counter()

    def show(record: dict[str, float]) -> None:
        nonlocal last
        if time.perf_counter() - last >= every:
            last = time.perf_counter()
            print(f"{title}: {describe(record)}", file=sys.stderr, flush=True)

    return show


def describe(record: dict[str, float]) -> str:
    """One record of a history as a phrase."""
    parts = [f"{record['seconds']:.1f} s"]
    parts += [f"iteration {record['iteration']:.0f}"] if "iteration" in record else []
    parts += [f"violation {record['violation']:.2e}"] if "violation" in record else []
    gap = record.get("objective", float("nan")) - record.get("bound", float("nan"))
    parts += [f"gap {gap:.2e}"] if gap == gap else []
    parts += [f"{record['rows']:,.0f} kernel rows"] if "rows" in record else []
    parts += [f"best {record['best']:.6g}"] if "best" in record else []
    parts += [f"elite up to {record['elite_threshold']:.6g}"] if "elite_threshold" in record else []
    parts += [f"{record['nodes']:,.0f} nodes"] if "nodes" in record else []
    return ", ".join(parts)
