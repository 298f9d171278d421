"""One certificate for several independent programs, such as the pairs of a multi-class problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyopt.certificates.certificate import Certificate, Residual, weakest

__all__ = ["combine"]


def combine(
    certificates: Sequence[Certificate], names: Sequence[str], parts: str = "pairs of classes"
) -> Certificate:
    """Sum the values, keep the weakest claim, and of each condition the worst case.

    The certificates, at least one, are of minimisations; `names` are those of the parts.
    """
    worst: dict[tuple[str, str], Residual] = {}
    for certificate, name in zip(certificates, names, strict=True):
        for residual in certificate.residuals:
            key = (residual.condition, residual.row)
            if key not in worst or residual.relative > worst[key].relative:
                worst[key] = replace(residual, row=f"{residual.row} ({name})")
    evidence = tuple(part for certificate in certificates for part in certificate.evidence)
    return Certificate(
        program=f"{certificates[0].program}, {len(certificates)} {parts}",
        claim=weakest([c.claim for c in certificates]),
        primal_value=sum(c.primal_value for c in certificates),
        dual_value=sum(c.dual_value for c in certificates),
        residuals=tuple(worst.values()),
        tol=certificates[0].tol,
        scope=f"{certificates[0].scope}, summed over {len(certificates)} {parts}",
        evidence=evidence if all(c.evidence for c in certificates) else (),
        note=" ".join(dict.fromkeys(c.note for c in certificates if c.note)),
    )
