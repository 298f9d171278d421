"""Tables of text are read alike by pandas and by the reader that names broken lines."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.datasets import DataFileError
from polyopt.datasets.source import open_source
from polyopt.datasets.tables import _read_by_pandas, _read_cells, find_layout, separator_of

NUMBERS = [
    "1", "-1.5", "+2", "0", "-0", "-0.0", "1e5", "1E-300", "1e-400", "5e-324", "3.", ".5", "007", "1e+05",
    " 1 ", '"3"', '"3 "', "9007199254740993", "123456789012345678901234567890", "0." + "123456789" * 60,
    "0" * 50 + "1", "1e-0005",
]  # fmt: skip
OTHERS = [
    "1_000", "1,000", "0x10", "1e400", "1" * 400, "inf", "+inf", "-Infinity", "nan", "NaN", "NA", "N/A", "",
    "null", "None", "?", "<NA>", "1 2", "True", "false", "2020-01-01", "#1", '"1"2', '1"2"', "'5'", '""',
    '"a,b"', '"x\ny"', '"1\r\n"', "١", "1\u00a0", "\u20281", "−1", "1e", "--1", "1d5", "1L", "\x001",
    "1\x0c", "1.2.3",
]  # fmt: skip
LABELS = ["a", "1", "-1", "+1", "01", "1.0", " a ", '"b"', "NA", "nan", "", "True", "é", "1e400", "\x00"]
FIRST_LINES = ["", "", "", "\n", "  \n", "sep=,\n", '"c\n",d,y\n', "c,c,y\n", "c,d,y\n", "#c\n"]
ROWS = [",", "1", "1,2", "1,2,a,", "", " ", ",,", '"1\n",2,a']


def drawn_table(rng):
    """Draw a table of two features and a label; most cells are numbers."""
    rate = rng.choice([0.0, 0.03, 0.3])

    def cell():
        return str(rng.choice(OTHERS if rng.random() < rate else NUMBERS))

    rows = [f"{cell()},{cell()},{rng.choice(LABELS[:3] if rate == 0 else LABELS)}" for _ in range(5)]
    if rng.random() < rate:
        rows.insert(int(rng.integers(6)), str(rng.choice(ROWS)))
    text = str(rng.choice(FIRST_LINES)) + "\n".join(rows) + "\n" * int(rng.integers(2))
    mark = b"\xef\xbb\xbf" if rng.random() < 0.1 else b""
    separator, end = rng.choice([",", ";", "\t"]), rng.choice(["\n", "\r\n", "\r"])
    return mark + text.replace(",", separator).replace("\n", end).encode()


def read_by_both(path):
    """Return the cells as pandas reads them, None if it is not to be used, and as the other reader does."""
    source = open_source(path)
    layout = find_layout(source, -1, separator_of(source, None), ".")
    fast = _read_by_pandas(source, layout, min_bytes=0)
    try:
        return fast, _read_cells(source, layout, set(), False, False)
    except DataFileError:
        return fast, None


def check_alike(fast, careful):
    """Fail if pandas read a table that the careful reader refuses, or in which it reads other cells."""
    assert careful is not None
    assert fast.labels == careful.labels
    assert fast.X.shape == careful.X.shape
    assert fast.X.tobytes() == careful.X.tobytes()  # the sign of 0, too


@pytest.mark.parametrize("seed", range(2))
def test_pandas_reads_drawn_tables_alike(tmp_path, seed):
    rng = np.random.default_rng(seed)
    path, read = tmp_path / "table.csv", 0
    for _ in range(150):
        path.write_bytes(drawn_table(rng))
        try:
            fast, careful = read_by_both(path)
        except DataFileError:  # no layout: neither reads it
            continue
        if fast is not None:
            check_alike(fast, careful)
            read += 1
    assert read > 30


@pytest.mark.parametrize(
    "text",
    [
        '"c\n",y\n1,a\n2,b\n',
        "\r1,a\r2,b\r",
        "c,y\n-0,a\n1,b\n",
        "\ufeffc,y\n1,a\n2,b\n",
        "sep=;\n1;a\n2;b\n",
        "c,y\n" + "1" + "0" * 300 + ",a\n2," + "b" * 100_000 + "\n",
    ],
    ids=["line break at the end of a name", "blank line", "minus 0", "mark", "separator line", "long lines"],
)
def test_pandas_reads_all_rows(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    fast, careful = read_by_both(path)
    check_alike(fast, careful)
    assert len(fast.X) == 2


@pytest.mark.parametrize("cell", OTHERS)
def test_what_is_no_number_is_not_left_to_pandas(tmp_path, cell):
    path = tmp_path / "table.csv"
    for rows in ([cell], [cell, cell], ["1", cell], [cell, "1"]):
        path.write_bytes("\n".join(["c;y", *(f"{row};a" for row in rows)]).encode())
        fast, careful = read_by_both(path)
        if fast is not None:
            check_alike(fast, careful)
