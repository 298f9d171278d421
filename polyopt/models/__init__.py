"""Fitted models as people keep them: what is saved, what is said of it, and what other programs read.

In the order to read:

model      Model: the steps from a table's columns to labels, the machine last, and what is known of the fit
facts      what is written down at the fit: versions, parameters, the data's digest, what was proven
files      skops's format, which holds data and no code
archive    a reader of this format that needs no skops, for what nearly all models are made of
raw_units  what the machine's features are in the columns of the table
rules      the faces of a polytope machine, whole or shortened, and how often they agree with it
explained  why a row of a table has its label, and what the model goes by, in the table's columns
onnx       the steps before the machine, and the whole, as an ONNX graph
"""

from polyopt.models.facts import facts_of_fit
from polyopt.models.files import load_model, save_model
from polyopt.models.model import Model

__all__ = ["Model", "facts_of_fit", "load_model", "save_model"]
