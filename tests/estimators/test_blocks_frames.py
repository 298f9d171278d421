"""Frames in blocks: names, gaps, booleans, and columns that are no numbers."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt import SVM, scale

pd = pytest.importorskip("pandas")

ROWS = 40


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"a": rng.normal(size=120), "b": rng.random(120) < 0.5, "c": rng.integers(0, 3, 120, dtype=np.int64)}
    )


@pytest.fixture(scope="module")
def y(frame):
    return np.where(frame.a + frame.b + frame.c > 1.5, "yes", "no")


def in_memory(frame, y, folder):
    return scale.Arrays(frame, y, rows=ROWS)


def of_polars(frame, y, folder):
    return scale.Arrays(pytest.importorskip("polars").from_pandas(frame), y, rows=ROWS)


def generated(frame, y, folder):
    part = lambda k: slice(ROWS * k, ROWS * (k + 1))  # noqa: E731
    return scale.Generated(lambda k: (frame[part(k)], y[part(k)]), 3)


SOURCES = [in_memory, of_polars, generated]


@pytest.mark.parametrize("source", SOURCES)
def test_booleans_beside_numbers_are_0_and_1(frame, y, tmp_path, source):
    """A frame gives the bits of its float matrix, and keeps its names: other orders are refused."""
    found = SVM(kernel="linear").fit(source(frame, y, tmp_path))
    wanted = SVM(kernel="linear").fit(scale.Arrays(frame.to_numpy(dtype=float), y, rows=ROWS))
    assert found.coef_.tolist() == wanted.coef_.tolist()
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="must be in the same order"):
        found.predict(frame[["c", "a", "b"]])


@pytest.mark.parametrize("source", SOURCES)
def test_a_gap_is_named_by_block_and_column(frame, y, tmp_path, source):
    """A missing integer is refused with its block, its row and its column."""
    gap = frame.assign(c=pd.array([None if k == 77 else 1 for k in range(120)], dtype="Int64"))
    with pytest.raises(ValueError, match=r"NaN or an infinite value in .*partition 1, row 37, column 'c'"):
        SVM(kernel="linear").fit(source(gap, y, tmp_path))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "values",
    [pd.Timestamp("2026-01-02"), pd.Timedelta(days=1), "Rome"],
    ids=["date", "duration", "text"],
)
def test_a_column_without_numbers_is_named(frame, y, tmp_path, source, values):
    """Dates and texts are refused with the name of their column."""
    with pytest.raises(ValueError, match="column 'c' holds"):
        SVM(kernel="linear").fit(source(frame.assign(c=values), y, tmp_path))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda part: part[["b", "a", "c"]], "partition 1 has its columns in another order"),
        (
            lambda part: part.rename(columns={"b": "d"}),
            "partition 1 lacks the column 'b' and has a column 'd'",
        ),
    ],
    ids=["order", "name"],
)
def test_blocks_with_other_columns_are_named(frame, y, change, told):
    """A block whose columns are not those of the first is refused."""
    parts = [frame[ROWS * k : ROWS * (k + 1)] for k in range(3)]
    parts[1] = change(parts[1])
    with pytest.raises(ValueError, match=told):
        SVM(kernel="linear").fit(scale.Generated(lambda k: (parts[k], y[ROWS * k : ROWS * (k + 1)]), 3))


def test_a_gap_among_labels_or_weights_is_named(frame, y):
    """Missing labels and weights are refused with block and row."""
    gap = pd.array([None if k == 77 else k % 2 for k in range(120)], dtype="Int64")
    part = lambda k: slice(ROWS * k, ROWS * (k + 1))  # noqa: E731
    with pytest.raises(ValueError, match=r"y has .* partition 1, row 37"):
        SVM(kernel="linear").fit(scale.Generated(lambda k: (frame[part(k)], gap.to_numpy()[part(k)]), 3))
    weights = gap.to_numpy(dtype=float, na_value=np.nan)
    with pytest.raises(ValueError, match=r"sample_weight must be finite .* partition 1, row 37, it is nan"):
        SVM(kernel="linear").fit(scale.Generated(lambda k: (frame[part(k)], y[part(k)], weights[part(k)]), 3))
