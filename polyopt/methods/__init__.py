"""The methods: one entry each, from which the commands, the comparison and the reports know all they know.

An entry is a :class:`Method`, plain data that names the code by where it is. Those of this package are in
``entries``; other packages register theirs by the entry point ``polyopt.methods``, a notebook by
:func:`register`. CONTRIBUTING.md has an example. To be read in the order ``method``, ``entries``,
``registry``.
"""

from polyopt.methods.method import Method
from polyopt.methods.registry import DEFAULT_METHOD, DEFAULT_METHODS, METHODS, find_method, register

__all__ = ["DEFAULT_METHOD", "DEFAULT_METHODS", "METHODS", "Method", "find_method", "register"]
