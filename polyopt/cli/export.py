"""``polyopt export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="Model saved by polyopt fit.")],
    out: Annotated[Path, typer.Option(help="File to write, such as model.onnx.")],
) -> None:
    """Write a saved model as other programs read it: the whole pipeline as an ONNX graph.

    The graph takes the features as the model does and gives "label" and "scores". It needs the extra
    polyopt[onnx].
    """
    from polyopt.base.files import check_is_file, check_target, write_bytes
    from polyopt.cli.console import say
    from polyopt.cli.deferred import load_saved
    from polyopt.cli.info import size_text

    check_is_file(model, "model")
    check_target(out, "--out", inputs=(model,))
    made = load_saved(model).to_onnx()
    content = made.SerializeToString()
    write_bytes(out, content)
    inputs = ", ".join(one.name for one in made.graph.input)
    opset = made.opset_import[0].version
    say(f"saved: {out} ({size_text(len(content))}), onnx, opset {opset}, input {inputs}")
