"""Text files as any program writes them: svmlight, whole or in blocks, and tables; broken lines are named."""

import gzip
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from polyopt import SVM, scale
from polyopt.datasets import DataFileError, is_svmlight, open_source, read_csv, read_svmlight

# -- svmlight --------------------------------------------------------------------------------------

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
    source = scale.SvmlightFile(path, 3, rows=rows)
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


def test_fit_of_blocks_names_the_line(tmp_path):
    """A fit names the file and the line of a block, of an index beyond the number of features too."""
    path = tmp_path / "samples.svm"
    path.write_text("\n".join(LINES))
    with pytest.raises(DataFileError, match=r"samples\.svm, line 1: index 3 in '3:-2' is larger than 2"):
        SVM(kernel="linear").fit(scale.SvmlightFile(path, 2, rows=2))


@pytest.mark.parametrize(
    ("content", "X", "y"),
    [
        (b"1 1:2\n-1 3:0.5\n", [[2, 0, 0], [0, 0, 0.5]], [1, -1]),
        (
            b"# header\n\n-1\n+1\t1:2  2:-1e-3 # remark, with 1_0 and qid:3\r\n\n",
            [[0, 0], [2, -0.001]],
            [-1, 1],
        ),
        (b"0.5 1:1\n2 1:.5", [[1], [0.5]], [0.5, 2]),
        (b"\xef\xbb\xbf1 2:1\n", [[0, 1]], [1]),
        (b"3 1:0 2:1\n", [[0, 1]], [3]),
        ("1 1:1 # größer\n".encode(), [[1]], [1]),
    ],
)
def test_svmlight_legal_files(tmp_path, content, X, y):
    """Comments, blank lines, tabs, a byte-order mark and a last line without end are read."""
    path = tmp_path / "legal.svm"
    path.write_bytes(content)
    data = read_svmlight(path)
    assert data.X.toarray().tolist() == X
    assert data.y.tolist() == y
    assert data.y.dtype == (np.float64 if 0.5 in y else np.int64)


BROKEN_SVMLIGHT = {
    b"1 1:1\n1 1:nan\n": (2, "'nan' is not finite"),
    b"1 1:1\n\n# remark\n1 1:-inf\n": (4, "'-inf' is not finite"),
    b"1 1:1e400\n": (1, "too large for a float"),
    b"1 1:1\n9007199254740993 1:1\n": (2, "larger than the whole numbers that a float tells apart"),
    b"nan 1:1\n": (1, "the label 'nan' is not finite"),
    b"1 1:1\nx 1:1\n": (2, "the label 'x' is not a number"),
    b"1 1:a\n": (1, "the value of feature 1 'a' is not a number"),
    b"1 1:\n": (1, "the value of feature 1 is empty"),
    b"1 1:1\n1 1:1 2:1_0\n": (2, "'1_0' is not a number"),
    b"1_0 1:1\n": (1, "the label '1_0' is not a number"),
    b"1 1_0:1\n": (1, "the index '1_0' of '1_0:1' is not a whole number"),
    b"1 a:1\n": (1, "the index 'a' of 'a:1' is not a whole number"),
    b"1 :2\n": (1, "the index '' of ':2' is not a whole number"),
    b"1 1.0:2\n": (1, "the index '1.0'"),
    b"1 0:1\n": (1, "index 0 in '0:1': indices start at 1; scikit-learn's dump_svmlight_file starts at 0"),
    b"1 1:1\n1 -1:1\n": (2, "index -1 in '-1:1': indices start at 1"),
    b"1 1:1\n1 2:1 2:2\n": (2, "index 2 appears twice"),
    b"1 3:1 2:2\n": (1, "index 2 comes after index 3"),
    b"1 99999999999:2\n": (1, "larger than 2147483647"),
    b"1 1\n": (1, "'1' is not index:value"),
    b"1 1: 2\n": (1, "the value of feature 1 is empty"),
    b"1 1:1\r\n1 1:a\r\n": (2, "'a' is not a number"),
    b"1 1:1\r1 1:a\r": (2, "'a' is not a number"),
    b"1 1:2:3\n": (1, "'2:3' is not a number"),
    b"1,2 1:1\n": (1, "one label per row"),
    b"1 qid:3 1:2\n": (1, "query ids ('qid:3') are not supported"),
    b"1 qid:3\n": (1, "query ids"),
    b"1 1:1\n1:2 2:3\n": (2, "has no label: it starts with '1:2'"),
    b"1 1:2\x00\n": (1, "is not a number"),
    b"1 1:0x10\n": (1, "'0x10' is not a number"),
    b"": (None, "holds no rows"),
    b"# only a remark\n\n": (None, "holds no rows"),
    b"-1\n1\n": (None, "no row lists a feature, and how many there are is not known"),
}


@pytest.mark.parametrize("content", BROKEN_SVMLIGHT)
def test_svmlight_names_the_broken_line(tmp_path, content):
    """By its number and its fault."""
    line, problem = BROKEN_SVMLIGHT[content]
    path = tmp_path / "broken.svm"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        read_svmlight(path)
    assert caught.value.line == line
    assert problem in caught.value.problem
    where = f"{path}: " if line is None else f"{path}, line {line}: "
    assert str(caught.value).startswith(where)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    if line is not None:
        with pytest.raises(DataFileError, match=rf"broken\.svm, line {line}: "):
            blocks(path, 1)


def test_svmlight_n_features_pads_and_limits(tmp_path):
    """A given width adds columns of 0, and refuses an index beyond it."""
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1\n1 3:2\n")
    assert read_svmlight(path, n_features=5).X.shape == (3, 5)
    with pytest.raises(DataFileError, match=r"line 3: index 3 in '3:2' is larger than 2"):
        read_svmlight(path, n_features=2)
    with pytest.raises(ValueError, match="n_features must be at least 1; got 0"):
        read_svmlight(path, n_features=0)
    labels_only = tmp_path / "labels.svm"
    labels_only.write_text("1\n-1\n")
    assert read_svmlight(labels_only, n_features=2).X.shape == (2, 2)


# Numbers of at most 15 digits: the 16 that dump_svmlight_file writes give them back exactly.
DECIMALS = st.builds(lambda k, e: float(f"{k}e{e}"), st.integers(1 - 10**15, 10**15), st.integers(-300, 280))


@given(data=st.data(), n=st.integers(1, 12), m=st.integers(1, 8), tabs=st.booleans())
@settings(max_examples=15, deadline=None)
def test_svmlight_round_trip(data, n, m, tabs, tmp_path_factory):
    """scikit-learn's files are read as they were written."""
    values = st.one_of(st.just(0.0), DECIMALS)
    X = np.array(data.draw(st.lists(st.lists(values, min_size=m, max_size=m), min_size=n, max_size=n)))
    y = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)))
    path = tmp_path_factory.mktemp("svm") / "round.svm"
    dump_svmlight_file(sparse.csr_matrix(X), y, str(path), zero_based=False)
    if tabs:
        path.write_text(path.read_text().replace(" ", "\t"))
    read = read_svmlight(path, n_features=m)
    assert np.array_equal(read.X.toarray(), X)
    assert np.array_equal(read.y, y)


def test_svmlight_reads_gzip_files(tmp_path):
    """A compressed file is read, and a cut one is named."""
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(b"1 1:2\n-1 2:1\n"))
    assert read_svmlight(path).X.toarray().tolist() == [[2, 0], [0, 1]]
    path.write_bytes(gzip.compress(b"1 1:2\n1 1:nan\n"))
    with pytest.raises(DataFileError, match="line 2"):
        read_svmlight(path)
    path.write_bytes(gzip.compress(b"1 1:2\n" * 1000)[:-12])
    with pytest.raises(DataFileError, match="cannot be decompressed"):
        read_svmlight(path)
    path.write_bytes(b"1 1:2\n")
    with pytest.raises(DataFileError, match="cannot be decompressed"):
        read_svmlight(path)


@pytest.mark.parametrize("read", [read_svmlight, read_csv])
def test_missing_file_is_named(read, tmp_path):
    """By each reader."""
    with pytest.raises(FileNotFoundError, match=r"cannot read '.*nowhere': it does not exist"):
        read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="it is a folder"):
        read(tmp_path)


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "target", "X", "y", "names"),
    [
        ("a,b,label\n1,2,yes\n3,4.5,no\n", -1, [[1, 2], [3, 4.5]], ["yes", "no"], ("a", "b")),
        ("1,2,0\n3,4,1\n", -1, [[1, 2], [3, 4]], [0, 1], None),
        ("1,2,red\n\n3,4,green\n", -1, [[1, 2], [3, 4]], ["red", "green"], None),
        ("label,a\n1,2\n0,3\n", "label", [[2], [3]], [1, 0], ("a",)),
        ("x,2019,2020\n1,2,3\n0,3,4\n", "x", [[2, 3], [3, 4]], [1, 0], ("2019", "2020")),
        ("0,5,6\n1,7,8\n", 0, [[5, 6], [7, 8]], [0, 1], None),
        ("0,5,6\n1,7,8\n", -2, [[0, 6], [1, 8]], [5, 7], None),
        (
            '"a, b",c\r\n" 1 ","no, never"\r\n2,"two\nlines"\r\n',
            -1,
            [[1], [2]],
            ["no, never", "two\nlines"],
            ("a, b",),
        ),
        ('"a\nb",c\n1,2\n3,4\n', -1, [[1], [3]], [2, 4], ("a\nb",)),
        ("\n\na,c\n1,2\n", -1, [[1]], [2], ("a",)),
        ("\ufeffa,c\n1,NA\n2,None\n", -1, [[1], [2]], ["NA", "None"], ("a",)),
        ("a,c\n1, 0.5\n2, 1e3\n", -1, [[1], [2]], ["0.5", "1e3"], ("a",)),
        ("a,c\n0.1,1\n123456789012345678901,2\n", -1, [[0.1], [123456789012345678901.0]], [1, 2], ("a",)),
    ],
)
def test_csv_legal_files(tmp_path, content, target, X, y, names):
    """Headers, quotes, gaps, line ends and targets of any place are read."""
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode())
    data = read_csv(path, target)
    assert data.X.tolist() == X
    assert data.y.tolist() == y
    assert data.feature_names == names
    assert data.target_names == tuple(str(label) for label in sorted(set(y)))


BROKEN_CSV = {
    b"": (None, "is empty"),
    b"\n \n": (None, "is empty"),
    b"a,b,c\n": (None, "holds a header and no rows"),
    b"1\n2\n": (1, "has one column"),
    b"\n1:2:3\n": (2, "has one column"),
    b"1,2,0\n3,4,1,9\n": (2, "has 4 cells where 3 are expected"),
    b"a,b,c\n1,2,0\n\n3,1\n": (4, "has 2 cells where 3 are expected"),
    b"a,b,c\n1,2,0,5\n3,4,1,5\n": (2, "has 4 cells where 3 are expected"),
    b"1,2,0\n3,4,1,\n": (2, "has 4 cells where 3 are expected"),
    b"a,b,c\n1,2,0\n1,red,0\n": (3, "column 'b': 'red' is not a number"),
    b"1,2,0\nred,2,0\n": (2, "column 1: 'red' is not a number"),
    b"x,1,0\n1,2,0\n": (1, "column 1: 'x' is not a number"),
    b"a,b,c\n1,,0\n": (2, "column 'b': the cell is empty"),
    b"a,b,c\n1,NA,0\n": (2, "'NA' is not a number"),
    b"a,b,c\n1,2,0\n1,nan,0\n": (3, "'nan' is not finite"),
    b"a,b,c\n1,inf,0\n": (2, "'inf' is not finite"),
    b"a,b,c\n1,1e400,0\n": (2, "too large"),
    b"a,b,c\n1,True,0\n": (2, "'True' is not a number"),
    b"a,b,c\n1,1_0,0\n": (2, "'1_0' is not a number"),
    b"a,b,c\n1,2,0\n1,2,\n": (3, "the label (column 'c') is missing"),
    b"a,b,c\n1,2,0\n1,2,NaN\n": (3, "the label (column 'c') is missing"),
    b"1,2,0\n1,2,\n": (2, "the label (column 3) is missing"),
    b",b,c\n1,2,0\n": (1, "column 1 has no name"),
    b"a,a,c\n1,2,0\n": (1, "two columns are named 'a'"),
    b'a,b\n1,"x\ny"\nred,z\n': (4, "'red' is not a number"),
    b'a,b\nred,"x\ny"\n': (2, "'red' is not a number"),
    b'a,b\n1,2\n1,"never closed\n': (3, "unexpected end of data"),
    b"a,b\n1,2\n1,\xff\n": (3, "is not UTF-8 text"),
}


@pytest.mark.parametrize("content", BROKEN_CSV)
def test_csv_names_the_broken_line(tmp_path, content):
    """By its number and its fault."""
    line, problem = BROKEN_CSV[content]
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        read_csv(path)
    assert caught.value.line == line
    assert problem in caught.value.problem
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("target", ["nope", 3, -4])
def test_csv_target_that_is_not_there(tmp_path, target):
    """An absent target column is named."""
    path = tmp_path / "table.csv"
    path.write_text("a,b,c\n1,2,0\n")
    with pytest.raises(ValueError, match=f"target={target!r} is not a column"):
        read_csv(path, target)


@given(data=st.data(), n=st.integers(1, 8), m=st.integers(1, 5), header=st.booleans())
@settings(max_examples=10, deadline=None)
def test_csv_round_trip_is_exact(data, n, m, header, tmp_path_factory):
    """numpy's files are read to the last bit."""
    values = st.floats(allow_nan=False, allow_infinity=False)
    X = np.array(data.draw(st.lists(st.lists(values, min_size=m, max_size=m), min_size=n, max_size=n)))
    path = tmp_path_factory.mktemp("csv") / "round.csv"
    lines = [",".join([*map(repr, row), f"c{i}"]) for i, row in enumerate(X.tolist())]
    path.write_text("\n".join([",".join(f"x{j}" for j in range(m)) + ",y"] * header + lines))
    assert np.array_equal(read_csv(path).X, X)
