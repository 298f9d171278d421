"""The lab: points that are drawn and dragged, and the program that they make, solved and certified at once.

To be read in this order: ``state`` (machines, settings, and what a link holds), ``sets`` (data), ``fitting``
(a state solved), ``samples`` (each point's rows), ``picture`` and ``programs`` (what is shown), ``answers``
and ``engine`` (messages), ``server`` and ``widget`` (the two ways to a person).
"""

from typing import Any

__all__ = ["Lab"]


def __getattr__(name: str) -> Any:
    if name == "Lab":
        from polyopt.lab.widget import Lab

        return Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
