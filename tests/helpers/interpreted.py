"""Compiled modules as plain Python: small kernels are looked at step by step, and nothing is compiled."""

from __future__ import annotations

import importlib
import sys
from unittest.mock import patch


def plain(function=None, **_):
    """The njit of polyopt.compiled, which compiles nothing."""
    return function if function is not None else plain


def interpreted(*names):
    """These modules read anew, each with those before it, without what the rest of polyopt has of them."""
    for name in names:  # what they import is compiled, and so is what imports them
        importlib.import_module(name)
    kept = dict(sys.modules)
    try:
        with patch("polyopt.compiled.njit", plain):
            for name in names:
                sys.modules.pop(name, None)
            return [importlib.import_module(name) for name in names]
    finally:
        for name in names:
            parent, _, own = name.rpartition(".")
            sys.modules[name] = kept[name]
            setattr(sys.modules[parent], own, kept[name])
