"""Explanations of a sample's label, of the change that would change it, and of a whole model.

In the order to read:

subject     the model of an explanation: polytopes that decide together, columns, and two labels
sample      one sample: its active face, the terms of its score, and its nearest counterfactual
model       all samples: the shares of the features, and the role of each face
classifier  a fitted classifier as such a model
"""

from polyopt.explanations.model import ModelExplanation, explain_model
from polyopt.explanations.sample import SampleExplanation, explain_sample
from polyopt.explanations.subject import Column, Subject

__all__ = ["Column", "ModelExplanation", "SampleExplanation", "Subject", "explain_model", "explain_sample"]
