"""Text files as other programs write them: svmlight, whole or in blocks, and tables of spreadsheets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from polyopt import large
from polyopt.datasets import DataFileError, is_svmlight, open_source, read_csv, read_svmlight

LINES = ["1 1:0.5 3:-2", "-1 2:1e-3", "1 1:4 2:5 3:6", "-1 3:0.25", "+1 1:1"]
FORMS = {
    "LF": "\n".join(LINES) + "\n",
    "no end": "\n".join(LINES),
    "CR LF": "\r\n".join(LINES) + "\r\n",
    "CR": "\r".join(LINES) + "\r",
    "mixed ends": LINES[0] + "\r" + "\r\n".join(LINES[1:3]) + "\n" + "\r".join(LINES[3:]),
    "mark": "\ufeff" + "\n".join(LINES) + "\n",
    "comments": "# made\n" + " # one\n\n".join(LINES) + "\n",
    "all": "\ufeff# made\r" + "\r".join(LINES),
}
WANTED = np.array([[0.5, 0.0, -2.0], [0.0, 1e-3, 0.0], [4.0, 5.0, 6.0], [0.0, 0.0, 0.25], [1.0, 0.0, 0.0]])


def blocks(path, rows):
    source = large.SvmlightFile(path, 3, rows=rows)
    return [source.read(number) for number in range(source.count)]


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("ending", ["svm", "txt"])
def test_both_readers_read_one_format(tmp_path, text, ending):
    """The whole file and its blocks hold the same samples, whatever ends a line or begins a file."""
    path = tmp_path / f"samples.{ending}"
    path.write_bytes(text.encode())
    assert is_svmlight(open_source(path))
    whole = read_svmlight(path)
    assert (whole.X.toarray() == WANTED).all()
    assert whole.y.tolist() == [1, -1, 1, -1, 1]
    for rows in (1, 2, 100):
        parts = blocks(path, rows)
        assert (np.vstack([part.X.toarray() for part in parts]) == WANTED).all()
        assert np.concatenate([part.y for part in parts]).tolist() == [1.0, -1.0, 1.0, -1.0, 1.0]


BROKEN = {
    "1 1:": "the value of feature 1 is empty",
    "1 1: 2": "the value of feature 1 is empty",
    "1 1:abc": "'abc' is not a number",
    "1 1:nan": "'nan' is not finite",
    "1 1:1_0": "'1_0' is not a number",
    "1 2:1 1:1": "indices must increase",
    "1 0:1": "indices start at 1; scikit-learn's dump_svmlight_file starts at 0 unless .* zero_based=False",
    "1 qid:1 1:1": "query ids",
    "one 1:1": "the label 'one' is not a number",
    "1:1": "the row has no label",
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CR LF", "CR"])
@pytest.mark.parametrize(("line", "told"), BROKEN.items(), ids=BROKEN)
def test_both_readers_name_file_and_line(tmp_path, line, told, end):
    """A broken line is refused with file and number, whether the file is read whole or by blocks."""
    path = tmp_path / "samples.svm"
    path.write_bytes(end.join([*LINES, line, *LINES]).encode())
    for read in (read_svmlight, lambda path: blocks(path, 2), lambda path: blocks(path, 100)):
        with pytest.raises(DataFileError, match=rf"samples\.svm, line 6: .*{told}"):
            read(path)


def test_a_machine_of_blocks_names_file_and_line(tmp_path):
    """A fit names the file and the line of a block, of an index beyond the number of features too."""
    path = tmp_path / "samples.svm"
    path.write_text("\n".join(LINES))
    with pytest.raises(DataFileError, match=r"samples\.svm, line 1: index 3 in '3:-2' is larger than 2"):
        large.SVM().fit(large.SvmlightFile(path, 2, rows=2))


def test_indices_from_0_have_a_hint(tmp_path):
    """The default of scikit-learn's writer is refused with the option that it needs."""
    dump_svmlight_file(WANTED, [1, -1, 1, -1, 1], str(tmp_path / "samples.svm"))
    with pytest.raises(DataFileError, match=r"line \d+: index 0 .* zero_based=False"):
        read_svmlight(tmp_path / "samples.svm")


# -- tables of spreadsheets ------------------------------------------------------------------------

TABLE = [["a", "b", "label"], ["1.5", "2", "yes"], ["3", "4", "no"], ["5", "6", "yes"]]


@pytest.mark.parametrize("separator", [";", ",", "\t", "|"], ids=["semicolon", "comma", "tab", "bar"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CR LF"])
@pytest.mark.parametrize("begin", ["sep=%s", "\ufeffSEP=%s", '"sep=%s"'], ids=["plain", "mark", "quoted"])
@pytest.mark.parametrize("header", [True, False], ids=["header", "no header"])
def test_a_line_that_tells_the_separator_is_read(tmp_path, separator, end, begin, header):
    """A spreadsheet's first line ``sep=;`` tells the separator, and is no row."""
    lines = [begin % separator] + [separator.join(row) for row in TABLE[not header :]]
    (tmp_path / "table.csv").write_bytes(end.join([*lines, ""]).encode())
    found = read_csv(tmp_path / "table.csv")
    assert found.X.tolist() == [[1.5, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert found.y.tolist() == ["yes", "no", "yes"]
    assert found.feature_names == (("a", "b") if header else None)


@pytest.mark.parametrize("cell", ["x", ""], ids=["text", "gap"])
def test_lines_are_counted_from_the_one_that_tells_the_separator(tmp_path, cell):
    """A broken cell is named by the line of the file."""
    (tmp_path / "table.csv").write_text(f"sep=;\na;b;label\n1;2;yes\n{cell};4;no\n")
    with pytest.raises(DataFileError, match=r"table\.csv, line 4: column 'a'"):
        read_csv(tmp_path / "table.csv")
