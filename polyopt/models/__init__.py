"""Fitted models as people keep them: saved, described, and handed to other programs.

In the order to read: ``model`` (the steps from a table's columns to labels, and the facts of their fit),
``files`` (skops's format, which holds data and no code), ``raw_units`` (the machine's features in the
columns of the table), ``rules`` (the faces of a polytope machine, whole or shortened), ``explained`` (the
subject of an explanation) and ``onnx``.
"""

from polyopt.models.files import load_model, save_model
from polyopt.models.model import Model, facts_of_fit

__all__ = ["Model", "facts_of_fit", "load_model", "save_model"]
