"""Rules as SQL, run by SQLite."""

from __future__ import annotations

import sqlite3


def labels_by_sql(text, X, names):
    """Labels of the rows of X by an expression over columns of these names."""
    base = sqlite3.connect(":memory:")
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    base.execute(f"CREATE TABLE samples ({columns})")
    places = ", ".join("?" * len(names))
    base.executemany(f"INSERT INTO samples VALUES ({places})", X.tolist())
    return [label for (label,) in base.execute(f"SELECT {text} FROM samples ORDER BY rowid")]
