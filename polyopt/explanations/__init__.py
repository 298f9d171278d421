"""Explanations of a sample's label, of the change that would change it, and of a whole model.

In the order to read:

decision_model  a model of two classes as explanations need it: polytopes, columns, and two labels
sample          one sample: its active face, the terms of its score, and its nearest counterfactual
model           all samples: the shares of the features, and the role of each face
classifier      a fitted classifier as such a model
"""

from polyopt.explanations.decision_model import Column, DecisionModel
from polyopt.explanations.model import ModelExplanation, explain_model
from polyopt.explanations.sample import SampleExplanation, explain_sample

__all__ = [
    "Column", "DecisionModel", "ModelExplanation", "SampleExplanation", "explain_model", "explain_sample",
]  # fmt: skip
