"""Compiled kernels: plain loops in C, one file for each family, and a thin side of Python.

Read ``library`` (how a kernel is declared and called), then the C file of the family at hand; ``common.h``
has what all share, and ``build`` compiles them when polyopt is installed.
"""
