"""``python -m formulations rmm``: print the programs of a family, solve and recover every pair."""

import sys

from formulations import FAMILIES, family
from formulations.catalogue import pairs_of

for name in sys.argv[1:] or FAMILIES:
    for pair in pairs_of(name, family(name)):
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
