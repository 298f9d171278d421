"""The methods: one entry each, on which the commands, the comparison and the reports are based.

An entry is a :class:`Method`, plain data that names the code. The entries of this package are in ``entries``;
other packages add theirs by the entry point ``polyopt.methods``, a notebook by :func:`register`.
CONTRIBUTING.md has an example. Read ``method``, ``entries``, ``registry``.
"""

from polyopt.methods.method import Method
from polyopt.methods.registry import DEFAULT_METHOD, DEFAULT_METHODS, METHODS, find_method, register

__all__ = ["DEFAULT_METHOD", "DEFAULT_METHODS", "METHODS", "Method", "find_method", "register"]
