"""``polyopt certify``, and what ``polyopt fit --certificate`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyopt.cli import settings as options
from polyopt.cli.completion import complete_data

if TYPE_CHECKING:
    from polyopt.certificates import Certificate
    from polyopt.models import Model

__all__ = ["certify", "write_claim"]


def certify(
    model: Annotated[Path, typer.Argument(help="Model saved by polyopt fit --keep-data.")],
    data: Annotated[
        str,
        typer.Argument(help="The data it was fitted to: a name or a file.", autocompletion=complete_data),
    ],
    out: Annotated[Path | None, typer.Option(help="File to write the claim in, such as claim.json.")] = None,
    overwrite_input: options.OverwriteInput = False,
) -> None:
    """Certify a saved model, and write the claim as a file that a stranger can check.

    polyopt/check/check.py, which needs Python and nothing else, proves the claim from the data in exact
    arithmetic, or refuses it.
    """
    from polyopt.cli.console import output
    from polyopt.files import check_target
    from polyopt.models import load_model

    check_target(out, "--out", inputs=(str(model), data), replace_input=overwrite_input)
    found = load_model(model)
    certificate = found.estimator.certificate()
    output().print(certificate.table())
    if out is not None:
        write_claim(certificate, found, data, out)


def write_claim(certificate: Certificate, model: Model, data: str, out: Path) -> None:
    """Write a claim, have it checked, and say how to do so.

    Where the checker cannot read the data as they are (names of data sets, texts, gaps, compressed files),
    the samples that the machine saw are written beside the claim.

    Parameters
    ----------
    certificate : Certificate
        What is claimed.
    model : Model
        What made the machine's samples of the data.
    data : str
        What the user named.
    out : Path
        The file.

    Raises
    ------
    ValueError
        A program that the format has no form for, or a claim that the checker refuses.
    """
    from polyopt.check.check import Refused, check
    from polyopt.cli.console import say

    file, plain = Path(data), all(step is model.scaler for _, step in model.steps)
    steps: list[str] = []
    if plain and file.is_file():
        claims = certificate.save(out, scaler=model.scaler, target=model.target)
        try:
            for claim in claims:
                check(claim, data, steps.append)
        except (Refused, ValueError, LookupError, TypeError):
            plain = False
    if not (plain and file.is_file()):
        file = out.with_suffix(".svm")
        steps = []
        for claim in certificate.save(out, data=file):
            try:
                check(claim, str(file), steps.append)
            except Refused as why:
                raise ValueError(f"the checker refuses the claim in {out}: {why}") from why
    say(f"claim: {out}, checked in {len(steps)} steps; again: python -m polyopt.check.check {out} {file}")
