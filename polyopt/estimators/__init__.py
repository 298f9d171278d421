"""The classifiers, in scikit-learn's conventions."""
