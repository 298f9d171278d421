"""``benchmarks/RESULTS.md``, its pages, and the table of speed of the README: no figure is typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from benchmarks import PAGES
from benchmarks.helpers.kept import RESULTS, kept_table
from benchmarks.papers import CHAPTERS
from benchmarks.papers.chapter import geometric_mean, table_of
from polyopt.base.files import write_text

FRONT = RESULTS.parent / "RESULTS.md"
README = RESULTS.parents[1] / "README.md"
_BEGIN, _END = "<!-- written by python -m benchmarks report -->\n", "<!-- to here -->\n"
_ROWS = 40  # of a table that are shown


# -- the pages -----------------------------------------------------------------------------------------


def write_results(front: Path = FRONT) -> list[Path]:
    """Write the front page, and beside it the pages in ``results/pages``."""
    written = {front: _front()}
    written |= {front.parent / "results" / "pages" / f"{page}.md": _page(page) for page in PAGES}
    for path, parts in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "\n\n".join(parts) + "\n")
    return [*written]


def _page(page: str) -> Iterator[str]:
    """A paper's claims and items, if the page is of a paper, and the tables of its benchmarks."""
    title, names = PAGES[page]
    yield f"# {title}"
    if page in CHAPTERS:
        source = CHAPTERS[page].source.rstrip(".")
        yield f"{source}. What it claims, what we find, and where everything in it is."
        for table in CHAPTERS[page].tables():
            yield _table(table.assign(by=table["by"].map(_linked)))
    for name in names:
        yield from _section(name)


def _linked(by: str) -> str:
    """A benchmark leads to its page; a test is named as it is."""
    page = next((page for page, (_, names) in PAGES.items() if by in names), None)
    return by if page is None else f"[{by}]({page}.md)"


def _section(name: str) -> Iterator[str]:
    """Title, words, table and picture of a benchmark."""
    title, *words = _paragraphs(name)
    yield f"## {title}"
    yield from words
    kept = kept_table(name)
    if kept is None:
        yield f"Not kept here: `python -m benchmarks run {name}` computes the table."
    else:
        table, (command, *facts) = kept
        yield _table(table)
        if len(table) > _ROWS:
            yield f"{len(table) - _ROWS} further rows are in `results/tables/{name}.csv`."
        yield f"`{command}`{'; '.join(['', *facts])}"
    if (RESULTS / f"{name}.png").is_file():
        yield f"![{name}](../{name}.png)"


def _paragraphs(name: str) -> list[str]:
    """What a benchmark says of itself: its title, and the paragraphs below it."""
    title, _, rest = (import_module(f"benchmarks.{name}").__doc__ or "").strip().partition("\n")
    parts = [title.rstrip("."), *re.split(r"\n\s*\n", rest.strip())]
    return [" ".join(text.replace("``", "`").split()) for text in parts if text]


def _table(table: pd.DataFrame) -> str:
    """A table in Markdown; the numbers of a column have the same decimals."""
    sides = ["---:" if is_numeric_dtype(table[column]) else "---" for column in table.columns]
    shown = table.head(_ROWS)
    columns = [shown[column].map(_formatter(table[column])) for column in table.columns]
    rows = [_row(map(str, table.columns)), f"|{'|'.join(sides)}|"]
    return "\n".join([*rows, *map(_row, zip(*columns, strict=True))])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _formatter(column: pd.Series) -> Callable[[object], str]:
    """How the values of a column are written."""
    if not is_numeric_dtype(column):
        return lambda value: "" if pd.isna(value) else str(value)
    sizes = column.abs()[np.isfinite(column) & (column != 0)]
    if sizes.empty or (sizes % 1 == 0).all():
        form = "{:,.0f}"
    elif str(column.name).endswith("%"):
        form = "{:.2f}"
    elif sizes.min() < 1e-4 or sizes.max() / sizes.min() > 1e6:
        form = "{:.1e}"
    else:
        # Three digits of the middle value and two of the smallest; four of all where they are of one size,
        # as values of an objective are.
        middle, least = np.floor(np.log10([sizes.median(), sizes.min()]))
        digits = 3 - least if 10 <= sizes.min() > sizes.max() / 20 else max(2 - middle, 1 - least)
        form = f"{{:,.{int(np.clip(digits, sizes.median() < 1000, 5))}f}}"
    return lambda value: "" if pd.isna(value) else form.format(value)


# -- the front page ------------------------------------------------------------------------------------


def _front() -> Iterator[str]:
    yield "# Results"
    yield (
        "Written by `python -m benchmarks report` from the tables that the benchmarks kept. Each page has "
        "the command behind every table, the machine and the data. One thread unless a table says otherwise. "
        "*CPU seconds* are of the processor; other work on the machine disturbs them less than seconds by "
        "the clock. All times move by some per cent from run to run."
    )
    links = {page: f"[{title}](results/pages/{page}.md)" for page, (title, _) in PAGES.items()}
    lines = [_row((*figures, links[page])) for page, *figures in _figures()]
    yield "\n".join([_row(("What", "Result", "At worst", "Page")), "|---|---|---|---|", *lines])


def _figures() -> Iterator[tuple[str, str, str, str]]:
    """The lines of the front page: the page behind each, what it is of, the result, and the worst case."""
    for page, chapter in CHAPTERS.items():
        seen = chapter.tables()[0]["seen"].str.partition(",")[0]
        others = ", ".join(f"{count} {word}" for word, count in seen[seen != "yes"].value_counts().items())
        yield page, "claims of the paper", f"{(seen == 'yes').sum()} of {len(seen)} seen", others
    for what, against, mean, worst, _ in _speeds():
        if " threads" not in what:
            yield "speed", f"{what}, against {against}", f"{mean} times faster", worst
    yield "global_optima", *_against_scip()
    gaps = table_of("compare_global").set_index("data")["global, gap %"]
    what = "gap of the polytope machine's search after 60 s, on built-in sets"
    yield "global_optima", what, f"{gaps.median():.1f} % (median)", f"{gaps.max():.1f} % ({gaps.idxmax()})"
    yield "interpretable_models", *_against_boosting()
    large = table_of("covtype_kernel")
    large = large[large["samples"] == large["samples"].max()]
    seconds, gap = large["seconds"], large["proven relative gap"].max()
    what = f"kernel machines on {large['samples'].iloc[0]:,} samples"
    yield "large_data", what, f"{seconds.min():.0f} s", f"{seconds.max():.0f} s, gap {gap:.0e}"
    trials = table_of("campaign").query("machine == 'all'")
    tried, false = trials["tried"].sum(), trials["false"].sum()
    yield "audits", "certificates on drawn problems", f"{tried:,}", f"{false} false"
    others = table_of("audit")[["said solved", "off"]].sum()
    what = "answers of other solvers that are said to be solved"
    yield "audits", what, f"{others['said solved']}", f"{others['off']} off by more than 0.1 %"


def _against_scip() -> tuple[str, str, str]:
    times = table_of("global_races").query("program == 'all'").set_index("data")["SCIP, times"].astype(float)
    mean, least = times["geometric mean"], times["least"]
    return "proven optima, against SCIP", f"{mean:.1f} times faster", f"{least:.1f}"


def _against_boosting() -> tuple[str, str, str]:
    models, sets = table_of("interpretable"), table_of("interpretable_sets").set_index("set")
    small = models["model"].iloc[0]
    apart = (sets[small] - sets["EBM"]).dropna()
    worst = f"{apart.min():+.4f} ({apart.idxmin()})".replace("-", "−")
    return f"AUROC of a {small}, less that of EBM", str(models["AUROC less EBM's"].iloc[0]), worst


# -- the table of speed ------------------------------------------------------------------------------


def write_speed(path: Path = README) -> Path:
    """Put the table of speed where it stands in the README; ValueError if the file has no such place."""
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
    yield from _raced(
        "import and first fit of 300 samples, all machines",
        "scikit-learn's SVC",
        "first_answer",
        first_answers,
    )


def first_answers(table: pd.DataFrame) -> pd.Series:
    """How many times as long SVC takes as each of our machines."""
    answers = table.set_index("machine")["import and first fit"]
    return answers["SVC"] / answers.drop(["SVC", "LinearSVC", "EBM"], errors="ignore")


def _portfolio() -> Iterator[tuple[str, ...]]:
    table = table_of("kernel_portfolio")
    for place, row in table[table["data"] == "geometric mean"].iterrows():
        title, _, cells = str(row["task"]).partition(": ")
        peer = {"intelex": "scikit-learn-intelex", "LIBSVM": "LIBSVM"}.get(str(row["peer"]))
        what = {"SVM": "kernel SVM", "predicting": "its predictions"}.get(title)
        if peer and what:
            threads = "one thread" if int(row["threads"]) == 1 else f"{int(row['threads'])} threads"
            mean, worst = inverse(table["ratio"][place], 1), inverse(table["ratio"][place + 1], 2)
            yield f"{what}, {cells}, {threads}", peer, mean, worst, "kernel_portfolio"


def inverse(ratio: object, digits: int) -> str:
    """One by a ratio; where a limit makes it a bound, so is its inverse, of the other kind."""
    text = str(ratio)
    sign = {"<": "> ", ">": "< "}.get(text[0], "")
    return f"{sign}{1 / float(text.lstrip('<> ')):.{digits}f}"


def _large() -> Iterator[str]:
    """The machines on all of covtype: a sentence, and a table."""
    yield (
        "Large data: covtype, class 2 against the rest, RBF kernel, on two cores (`covtype_kernel`). The "
        "violation is recomputed, and the gap is proven, from the multipliers."
    )
    lines = [
        "| Machine | Samples | Seconds | Memory, GB | Violation | Relative gap | Error, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in table_of("covtype_kernel").to_dict("records"):
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
    ratios = pd.Series(times(table_of(name))).astype(float)
    worst = f"{ratios.min():.2f}" if len(ratios) > 1 else ""
    yield what, against, f"{geometric_mean(ratios):.1f}", worst, name
