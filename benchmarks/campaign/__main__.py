"""One problem of the campaign again: ``python -m benchmarks.campaign FAMILY RANGE SEED``."""

from __future__ import annotations

import argparse
import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def main() -> None:
    from benchmarks.campaign.draws import RANGES
    from benchmarks.campaign.driver import FAMILIES, replay

    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaign", description=__doc__)
    parser.add_argument("family", choices=list(FAMILIES))
    parser.add_argument("range", choices=RANGES)
    parser.add_argument("seed", type=int)
    arguments = parser.parse_args()
    for trial in replay(arguments.family, arguments.range, arguments.seed):
        print(f"{trial.machine}: {trial.outcome} {trial.claim} ({trial.seconds:.2f} s)  {trial.words}")
        for kind, detail in zip(trial.kinds or [""], trial.details, strict=False):
            print(f"    {kind}: {detail}")


if __name__ == "__main__":
    main()
