"""Tables of several chunks of rows: their cells are read as one, and a broken line of any chunk is named."""

import numpy as np
import pytest

from polyopt.datasets import DataFileError, read_csv

N = 25_000


@pytest.mark.parametrize("mark", [".", ","])
def test_numbers_are_those_of_float(tmp_path, mark):
    """Every chunk's cells are read as Python's float reads them."""
    rng = np.random.default_rng(0)
    cells = [repr(value) for value in (rng.normal(size=N) * 10.0 ** rng.integers(-300, 300, N)).tolist()]
    cells[17_000:17_004] = ["-0", "3.", ".5", "+2E-0005"]
    lines = [f"{cell};{i};{'ab'[i % 2]}".replace(".", mark) for i, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = read_csv(tmp_path / "t.csv", separator=";", decimal=mark)
    assert found.X[:, 0].tobytes() == np.array([float(cell) for cell in cells]).tobytes()
    assert found.X[:, 1].tolist() == list(range(N))
    assert found.y[:3].tolist() == ["a", "b", "a"]


OTHERS = ["1_000", "1,000", "0x10", "1e400", "inf", "١", "1 2", "True", "−1", "1e", "--1", "1\u00a0x", "1\n2"]


@pytest.mark.parametrize(
    ("cell", "row"), [*((cell, row) for cell in OTHERS for row in (0, 40)), ("1 2", N), ("1e", N)]
)
def test_broken_cell_is_named(tmp_path, cell, row):
    """By row and column, in whichever chunk it is."""
    lines = ["1.5;2;a"] * (row + 9)
    lines[row] = f'1;"{cell}";a'
    (tmp_path / "t.csv").write_text("\n".join(["u;v;y", *lines]), encoding="utf-8")
    with pytest.raises(DataFileError, match=rf"line {row + 2}: column 'v': ") as caught:
        read_csv(tmp_path / "t.csv")
    assert "is not" in str(caught.value) or "too large" in str(caught.value)


def test_texts_keep_their_spelling(tmp_path):
    """A number in a column of texts stays as it is written."""
    lines = [f"{1 + i % 3},00{i % 7},y{i % 2}" for i in range(N)]
    lines[20_000:] = [f"2,{'red' if i % 4 else ''},y{i % 2}" for i in range(N - 20_000)]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,y", *lines]))
    found = read_csv(tmp_path / "t.csv", categorical=["v"], impute="median")
    assert found.X[:2].tolist() == [[1.0, "000"], [2.0, "001"]]
    assert found.X[20_000:20_002].tolist() == [[2.0, None], [2.0, "red"]]
    with pytest.raises(DataFileError, match=r"line 20003: column 'v': 'red' is not a number"):
        read_csv(tmp_path / "t.csv", impute="median")
