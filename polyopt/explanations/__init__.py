"""Why a sample has its label, what would change it, and what a whole model goes by.

In the order to read:

subject   what is explained: polytopes that decide together, columns of the data, and the two labels
way       the nearest point on the other side, and one that the model itself puts there
sample    one sample: the face that answers, what its features add, and the way out
model     all samples: which features count, and what each face catches that no other does
words     what their texts share
"""

from polyopt.explanations.model import ModelExplanation, explain_model
from polyopt.explanations.sample import SampleExplanation, explain_sample
from polyopt.explanations.subject import Column, Subject

__all__ = ["Column", "ModelExplanation", "SampleExplanation", "Subject", "explain_model", "explain_sample"]
