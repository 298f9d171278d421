"""``python -m formulations rmm``: print the programs of a family, solve and recover every pair."""

import sys

from formulations import FAMILIES, family

for name in sys.argv[1:] or FAMILIES:
    for pair in family(name).pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
