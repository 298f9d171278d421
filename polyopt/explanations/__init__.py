"""Explanations of the label of a sample and of a model as a whole, for two classes.

In the order to read:

decision_model  the input of explanations: polytopes, the columns of the data, and two labels
sample          one sample: its active face, the terms of its score, and its nearest counterfactual
model           a data set: the importance of the features, and the role of each face
classifier      conversion of a fitted classifier to a decision model
"""

from polyopt.explanations.decision_model import Column, DecisionModel
from polyopt.explanations.model import ModelExplanation, explain_model
from polyopt.explanations.sample import SampleExplanation, explain_sample

__all__ = [
    "Column", "DecisionModel", "ModelExplanation", "SampleExplanation", "explain_model", "explain_sample",
]  # fmt: skip
