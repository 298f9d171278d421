"""All kept tables as ``benchmarks/RESULTS.md``, and the table of speed of the README: no figure is typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from pandas.api.types import is_numeric_dtype

from benchmarks.helpers.kept import RESULTS, kept_table, paragraphs_of, pictures_of, shown
from polyopt.files import write_text

if TYPE_CHECKING:
    from benchmarks.papers.chapter import Chapter

PAGE = RESULTS.parent / "RESULTS.md"
README = RESULTS.parents[1] / "README.md"
_BEGIN, _END = "<!-- written by python -m benchmarks report -->\n", "<!-- to here -->\n"
_ROWS = 40  # of a table that are shown


def write_results(docs: dict[str, str], path: Path = PAGE) -> Path:
    """Write the page of all that is kept; arguments as in :func:`benchmarks.helpers.report.write_report`."""
    from benchmarks.papers import CHAPTERS

    kept = {name: section for name, doc in docs.items() if (section := "\n\n".join(_section(name, doc)))}
    titles = [*(chapter.title for chapter in CHAPTERS), *(_title(docs[name]) for name in kept)]
    contents = "\n".join(f"- [{title}](#{_anchor(title)})" for title in titles)
    missing = ", ".join(f"`{name}`" for name in docs if name not in kept)
    parts = [
        "# Results",
        "This page is written by `python -m benchmarks report` from the tables that the benchmarks kept. "
        "Under each is the command that computed it, and on what. One thread unless a table says otherwise. "
        "*CPU seconds* are of the processor; other work on the machine disturbs them less than seconds by "
        "the clock. All times move by some per cent from run to run.",
        "The first five chapters are the papers: what each claims and what we find, and where everything in "
        "it is, by the benchmarks below and by tests.",
        contents,
        *(part for chapter in CHAPTERS for part in _chapter(chapter)),
        *kept.values(),
        *(
            [f"Not kept here: {missing}. `python -m benchmarks run NAME` computes a table."]
            if missing
            else []
        ),
    ]
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def _chapter(chapter: Chapter) -> Iterator[str]:
    """A paper: its claims, and its items."""
    yield f"## {chapter.title}"
    yield chapter.source.rstrip(".") + "."
    yield from map(_table, chapter.tables())


def _section(name: str, doc: str) -> Iterator[str]:
    """Title, words, table and pictures of one benchmark; nothing where nothing is kept."""
    kept, pictures = kept_table(name), pictures_of(name)
    if kept is None and not pictures:
        return
    yield f"## {_title(doc)}"
    yield from (" ".join(text.replace("``", "`").split()) for text in paragraphs_of(doc)[1])
    if kept is not None:
        table, (command, *facts) = kept
        yield _table(table)
        if len(table) > _ROWS:
            yield f"{len(table) - _ROWS} further rows are in `results/tables/{name}.csv`."
        yield f"`{command}`{'; '.join(['', *facts])}"
    for picture in pictures:
        yield f"![{picture.stem}](results/{picture.name})"


def _title(doc: str) -> str:
    return paragraphs_of(doc)[0].replace("``", "`")


def _anchor(title: str) -> str:
    """The address of a heading, as code forges make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _table(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    sides = ["---:" if is_numeric_dtype(table[column]) else "---" for column in table.columns]
    rows = [_row(map(str, table.columns)), f"|{'|'.join(sides)}|"]
    return "\n".join([*rows, *(_row([""] * same + row[same:]) for row, same, _ in shown(table)[:_ROWS])])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


# -- the table of speed ------------------------------------------------------------------------------


def write_speed(path: Path = README) -> Path:
    """Put the table of speed, from the kept tables, where it stands in the README.

    Parameters
    ----------
    path : Path
        The file; what is before and after the table stays.

    Raises
    ------
    ValueError
        The file has no such place.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{path} has no table between {_BEGIN.strip()!r} and {_END.strip()!r}")
    rows = [_row(("What", "Against", "Times faster", "at worst", "Table")), "|---|---|---:|---:|---|"]
    rows += [_row(line) for line in _speeds()]
    block = "\n\n".join(["\n".join(rows), *_large()])
    write_text(path, before + begin + block + "\n" + end + after)
    return path


def _speeds() -> Iterator[tuple[str, ...]]:
    """Of each race: what, against what, the mean of how many times faster, the least, and its table."""
    yield from _portfolio()
    yield from _raced(
        "linear SVM, interior point to a gap of 1e-9", "LIBLINEAR, stopped after 100 to 1,000 passes",
        "linear_machines",
        lambda t: t["CPU seconds"][t["machine"].str.contains("LIBLINEAR")].to_numpy()
        / t["CPU seconds"][t["machine"] == "SVM, interior point"].to_numpy(),
    )  # fmt: skip
    yield from _raced(
        "polytope machine, SGD steps per second", "the authors' C++", "cpm_speed",
        lambda t: t["times ours, averaged"][t["solver"].str.contains("authors")],
    )  # fmt: skip
    yield from _raced(
        "PLUME's M-step by Newton's method", "cvxpy with Clarabel", "plume_newton",
        lambda t: t["times faster than cvxpy"][t["M-step by"] == "newton"],
    )  # fmt: skip
    yield from _raced(
        "linear program of a pattern (L0 machine)", "scipy, active columns", "l0_speed",
        lambda t: t["times faster than scipy"][t["programs by"] == "PatternLP, prepared"],
    )  # fmt: skip


def _portfolio() -> Iterator[tuple[str, ...]]:
    kept = kept_table("kernel_portfolio")
    if kept is None:
        return
    table = kept[0]
    for place, row in table[table["data"] == "geometric mean"].iterrows():
        title, _, cells = str(row["task"]).partition(": ")
        peer = {"intelex": "scikit-learn-intelex", "LIBSVM": "LIBSVM"}.get(str(row["peer"]))
        what = {"SVM": "kernel SVM", "predicting": "its predictions"}.get(title)
        if peer and what:
            threads = "one thread" if int(row["threads"]) == 1 else f"{int(row['threads'])} threads"
            mean, worst = _inverse(table["ratio"][place], 1), _inverse(table["ratio"][place + 1], 2)
            yield f"{what}, {cells}, {threads}", peer, mean, worst, "kernel_portfolio"


def _inverse(ratio: object, digits: int) -> str:
    """One by a ratio; where a limit makes it a bound, so is its inverse, of the other kind."""
    text = str(ratio)
    sign = {"<": "> ", ">": "< "}.get(text[0], "")
    return f"{sign}{1 / float(text.lstrip('<> ')):.{digits}f}"


def _large() -> Iterator[str]:
    """The machines on all of covtype: a sentence, and a table."""
    kept = kept_table("covtype_kernel")
    if kept is None:
        return
    yield (
        "Large data: covtype, class 2 against the rest, RBF kernel, on two cores (`covtype_kernel`). The "
        "violation is recomputed, and the gap is proven, from the multipliers."
    )
    lines = [
        "| Machine | Samples | Seconds | Memory, GB | Violation | Relative gap | Error, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in kept[0].to_dict("records"):
        machine = (
            f"SVM, C = {row['C']:g}" if not row["share"] else f"RMM, C = {row['C']:g}, B = {row['B']:.2f}"
        )
        cells = [
            machine, f"{row['samples']:,}", f"{row['seconds']:.0f}", f"{row['peak GB']:.1f}",
            f"{row['violation']:.1e}", f"{row['proven relative gap']:.1e}", f"{row['test error, %']:.1f}",
        ]  # fmt: skip
        lines.append(_row(cells))
    yield "\n".join(lines)


def _raced(
    what: str, against: str, name: str, times: Callable[[pd.DataFrame], pd.Series]
) -> Iterator[tuple[str, ...]]:
    kept = kept_table(name)
    if kept is not None:
        ratios = pd.Series(times(kept[0])).astype(float)
        mean = float((ratios.prod()) ** (1 / len(ratios)))
        yield what, against, f"{mean:.1f}", f"{ratios.min():.2f}" if len(ratios) > 1 else "", name
