"""A model's explanation as text in lines of at most 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyopt.explanations.words import NAME, cut, named, others, wrapped

if TYPE_CHECKING:
    from polyopt.explanations.records import ModelRecord

__all__ = ["face_sentence", "heading_of_model", "model_text", "share_sentence"]

_BAR = 20  # columns of the longest bar


def model_text(e: ModelRecord) -> str:
    """A model's explanation.

    e: the explanation.
    """
    lines = [*wrapped(heading_of_model(e)), "", *_share_lines(e), "", *_face_lines(e)]
    return "\n".join(lines)


def heading_of_model(e: ModelRecord) -> str:
    """What the model is made of, and how often its faces agree with it.

    e: the explanation.
    """
    inside, outside = (named(label) for label in e.subject.labels)
    text = {
        "polytope": f"One polytope of {len(e.faces)} faces: class {inside} inside, class {outside} outside.",
        "union": f"A union of {len(e.subject.polytopes)} polytopes, {len(e.faces)} faces: class {inside} "
        f"inside of one of them, class {outside} outside of all.",
        "difference": f"Two polytopes, {len(e.faces)} faces, that decide by the difference of their scores: "
        f"class {outside} where the first one's is larger, else class {inside}.",
    }[e.subject.kind]
    if e.agreement < 1.0:
        share = f"{100 * e.agreement:.2f} % of the samples"
        text += f" The model decides by its probabilities: these faces agree with it on {share}."
    return text


def share_sentence(e: ModelRecord) -> str:
    """What a feature's share is.

    e: the explanation.
    """
    spread = "times the feature's spread" if e.subject.has_units else "in the feature's own unit"
    return (
        f"Features by their share of the faces' weights (the size of the weight {spread}; each face counts "
        f"as often as it answers for one of {e.samples} samples):"
    )


def _share_lines(e: ModelRecord) -> list[str]:
    lines = wrapped(share_sentence(e))
    shown, hidden = e.shares[: e.top], [pair for pair in e.shares[e.top :] if pair[1]]
    largest = max((share for _, share in shown), default=0.0) or 1.0
    lines += [
        f"  {cut(name):<{NAME}} {100 * share:>6.1f} %  {'█' * round(_BAR * share / largest)}".rstrip()
        for name, share in shown
    ]
    if hidden:
        rest = sum(share for _, share in hidden)
        lines.append(f"  {others(len(hidden)):<{NAME}} {100 * rest:>6.1f} %")
    return lines


def _face_lines(e: ModelRecord) -> list[str]:
    labelled, of_pieces = e.error is not None, e.subject.kind != "polytope"
    head = f"{'face':>8} {'answers':>8} {'beyond':>7} {'only it':>8}"
    head += f" {'right':>6} {'changes':>8} {'error':>8}" if labelled else f" {'changes':>8}"
    lines = [head]
    for role in e.faces:
        piece, face = role.name
        name = f"{piece}.{face}" if of_pieces else str(face)
        line = f"{name:>8} {role.answers:>8} {role.beyond:>7} {role.alone:>8}"
        changed = "-" if role.changed is None else str(role.changed)
        if labelled:
            error = "-" if role.error_without is None else f"{100 * role.error_without:.2f} %"
            line += f" {role.alone_right:>6} {changed:>8} {error:>8}"
        else:
            line += f" {changed:>8}"
        lines.append(line)
    return [*lines, *wrapped(face_sentence(e))]


def face_sentence(e: ModelRecord) -> str:
    """What the columns of the table of faces say.

    e: the explanation.
    """
    right = "" if e.error is None else ", and 'right' those of the class outside"
    error = "" if e.error is None else f"; 'error': of the model without it, with it {100 * e.error:.2f} %"
    return (
        "'answers': samples whose label it decides. 'beyond': samples outside of it; 'only it': of no other "
        f"face of its polytope{right}. 'changes': labels that would be others without it{error}."
    )
