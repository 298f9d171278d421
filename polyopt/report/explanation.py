"""`write_explanation`: the explanation of a model, and of a sample if there is one, as a page."""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from polyopt.base.files import write_text
from polyopt.base.table import Column
from polyopt.base.text import escape
from polyopt.explanations import ModelExplanation, SampleExplanation
from polyopt.explanations.model import face_rows, face_sentence, heading_of_model, share_sentence
from polyopt.explanations.sample import (
    change_rows,
    crossing_sentence,
    distance_sentence,
    fidelity_sentence,
    heading_of_sample,
    term_rows,
)
from polyopt.plots.figure import svg
from polyopt.plots.polytope import face_weights
from polyopt.report.frame import Contents, framed, rows_table

_PICTURE = (
    "Weights of the features times their standard deviations: with a bar to the right a large value is "
    "evidence for the outside, with a bar to the left for the inside."
)


def write_explanation(
    model: ModelExplanation, path: str | Path, *, title: str, sample: SampleExplanation | None = None
) -> Path:
    """Write the explanations of a model and, if it is given, of a sample as one page; replace a file."""
    contents, parts = Contents(), []
    if sample is not None:
        parts.append(f"<section>{contents.heading(2, 'the sample', 'The sample')}{_sample(sample)}</section>")
    parts.append(f"<section>{contents.heading(2, 'the model', 'The model')}{_model(model)}</section>")
    image = svg(face_weights(model, columns=1), _PICTURE)
    parts.append(
        f"<section>{contents.heading(2, 'the faces', 'The faces')}<div class='pictures'><figure>{image}"
        f"<figcaption>{escape(_PICTURE)}</figcaption></figure></div></section>"
    )
    body = f"<h1>{escape(title)}</h1>{contents.nav()}" + "\n".join(parts)
    write_text(Path(path), framed(title, body))
    return Path(path)


def _table(heads: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a table; a star marks the head of a column of texts."""
    columns: list[Column[Sequence[str]]] = [
        Column(head.removesuffix("*"), itemgetter(i), is_text=head.endswith("*"))
        for i, head in enumerate(heads.split(", "))
    ]
    return rows_table(columns, rows, sortable=True)


def _sample(e: SampleExplanation) -> str:
    changes = change_rows(e)
    return "".join(
        [
            f"<p>{escape(heading_of_sample(e))}</p>",
            f"<p class='quiet'>The score of the mean sample is {e.base:.4g}; terms of the difference:</p>",
            _table("feature*, value, mean, adds", term_rows(e)),
            f"<p>{escape(fidelity_sentence(e))}</p><p>{escape(distance_sentence(e))}</p>",
            _table("changes*, from, to, by spreads", changes) if changes else "",
            f"<p class='quiet'>{escape(crossing_sentence(e))}</p>" if changes else "",
        ]
    )  # fmt: skip


def _model(e: ModelExplanation) -> str:
    shares = [(name, f"{100 * share:.1f} %") for name, share in e.shares if share]
    head, *faces = face_rows(e)
    return (
        f"<p>{escape(heading_of_model(e))}</p><p class='quiet'>{escape(share_sentence(e))}</p>"
        f"{_table('feature*, share', shares)}{_table(', '.join(['face*', *head[1:]]), faces)}"
        f"<p class='quiet'>{escape(face_sentence(e))}</p>"
    )
