"""Polytopes against what people install: EBM, boosted trees, trees, logistic regression, an RBF SVM.

Twenty public sets of numbers, of numbers and categories, and of texts, as they come
(``benchmarks/helpers/interpretable_data.py``); of those with more than 14,000 rows a stratified part of as
many is drawn once. Ten splits, seven tenths to train, stratified, seeded, the same for every model. All
that is tuned is tuned by cross-validation inside the training part: polytopes by their own search; boosted
trees by their learning rate and the size of a tree (two values each, as many rounds as the libraries'
defaults), trees by their number of leaves and the least samples of a leaf, or by their depth; logistic
regression by its price; the RBF SVM by C and γ, on at most 3,000 samples. EBM is at its defaults, which its
authors recommend. Where the libraries take categories and gaps, they get them; else levels are columns,
gaps the median, and columns standardised. Texts are the TF-IDF of the 1,000 most frequent words of the
training part.

Numbers are what a reader must read to answer by hand: weights, thresholds, leaves and scores of bins that
are not zero (the rule is in ``benchmarks/helpers/interpretable_size.py``); "L1, 60 numbers" is the best by
cross-validated log loss among the fits of at most 60. A greedy tree has at most 30 leaves, 59 numbers.

Seconds are of the processor, of the fit with all its tuning; one thread for every model. Numbers and seconds
are geometric means. Means are over the splits of a set that every model has, and then over the sets; the
last column counts both. "AUROC less EBM's" is the mean difference of AUROC with its 95 % interval over the
splits, corrected for the samples they share (Nadeau and Bengio 2003); where some sets have fewer splits than
others there is no interval. Two columns count the sets on which that interval, set by set, is on one side of
zero; where polytopes lose is named set by set in ``interpretable_sets``.

EBM and XGBoost are not needed by the package: ``pip install polyopt[bench]`` has them, and a
model that is not installed is left out, which a row says. Every cell is kept in results/interpretable.csv
as it ends, and not computed again: delete the file, or some lines of it, to do so. Some hours, nearly all
of them EBM's; ``--kept`` makes the table of the cells that are there. The first seven splits of EBM were
kept on a machine with more other work than ours: nine of its cells, run again between two of ours, took
0.67 to 0.95 of what is kept (ours were then 10 to 18 times faster on wbc, and 27 to 72 times on six other
sets). Splits from the eighth on, and some of banana, were computed on another processor (Intel Xeon), the
rivals' with much other work beside them and ours alone. The settings of our machines' search were chosen
on other splits of adult, australian, covtype, magic, pima, sonar and svmguide1, and changed once after a
look at the lines of optdigits and sms: the other sets alone are new to them.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from benchmarks.helpers.interpretable_cells import Make, computed, kept_cells
from benchmarks.helpers.interpretable_data import SETS
from benchmarks.helpers.interpretable_ours import OURS, ours
from benchmarks.helpers.interpretable_page import by_model
from benchmarks.helpers.interpretable_rivals import RIVALS, after_words, is_installed

KEPT = Path(__file__).parent / "results" / "interpretable.csv"
SPLITS = 10
_SMOKE = ["wbc"]


def run(smoke: bool = False, kept: bool = False) -> pd.DataFrame:
    """One row per model; with `kept` nothing is run."""
    if kept:
        return by_model(pd.DataFrame(kept_cells(KEPT)))
    models, missing = entrants()
    for name, why in missing.items():
        print(f"  {name}: {why}")
    _compile(models)
    if smoke:
        few = {name: make for name, make in models.items() if name != "EBM"}
        rows = pd.DataFrame(computed(None, few, _SMOKE, range(1)))
        if rows["failed"].any():  # a long run goes on where a model fails, and its table tells
            raise RuntimeError("; ".join(rows["model"] + ": " + rows["failed"]))
        return by_model(rows, missing)
    return by_model(pd.DataFrame(computed(KEPT, models, list(SETS), range(SPLITS))), missing)


def entrants() -> tuple[dict[str, Make], dict[str, str]]:
    """The models that can be made here, ours first, and what is to be installed for the others."""
    models: dict[str, Make] = {name: partial(_own, name) for name in OURS}
    models |= {name: rival.make for name, rival in RIVALS.items() if is_installed(rival)}
    missing = {
        name: f"left out: pip install {rival.package}"
        for name, rival in RIVALS.items()
        if not is_installed(rival)
    }
    return models, missing


def _own(name: str, kind: str, seed: int) -> Any:
    return after_words(kind, ours(name, seed, kind))


def _compile(models: dict[str, Make]) -> None:
    """A first fit of ours, whose time is not taken."""
    X, y = make_classification(200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in OURS:
            models[name]("numbers", 0).fit(X, y).predict_proba(X)
