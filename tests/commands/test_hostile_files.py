"""Broken, odd and hostile files: one sentence that names the place, or the values that the file has."""

import bz2
import gzip
import itertools
import lzma
import os
import re
import threading

import numpy as np
import pytest
from helpers.commands import refused, run, small_table, worked, write

from polyopt.cli.data import Form, load_data
from polyopt.datasets import DataFileError, fit_preparation, open_source, read_csv

PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
HEADER = ["a", "b", "c", "kind"]
ROWS = [["1", "2.5", "-3e2", "yes"], ["0.5", "0", "7", "no"], ["4", "5", "6", "yes"], ["7", "8", "9", "no"]]


def table(change, separator=",", header=True):
    """The table as bytes, after a change to its rows (the header is row 0)."""
    rows = [list(HEADER), *(list(row) for row in ROWS)]
    change(rows)
    text = "\n".join(separator.join(row) for row in rows[0 if header else 1 :]) + "\n"
    return text.encode()


def cell(line, column, value):
    def change(rows):
        rows[line - 1][column] = value

    return change


# What is done to the table, and what the sentence must say. Lines are counted from 1, the header's.
DEFECTS = {
    "word": (cell(3, 1, "oops"), r"line 3: column 'b': 'oops' is not a number"),
    "two points": (cell(2, 0, "1.2.3"), r"line 2: column 'a': '1\.2\.3' is not a number"),
    "underscore": (cell(4, 0, "1_000"), r"line 4: column 'a': '1_000' is not a number"),
    "hexadecimal": (cell(4, 0, "0x10"), r"line 4: column 'a': '0x10' is not a number"),
    "inf": (cell(5, 2, "-inf"), r"line 5: column 'c': '-inf' is not finite"),
    "nan": (cell(5, 2, "NaN"), r"line 5: column 'c': 'NaN' is not finite; missing .*line 5\).*'c'"),
    "NA": (cell(2, 1, "NA"), r"line 2: column 'b': 'NA' is not a number; missing values in 1 row \(line 2\)"),
    "question": (cell(2, 1, "?"), r"line 2: column 'b': '\?' is not a number; missing values in 1 row"),
    "empty": (cell(3, 1, ""), r"line 3: column 'b': the cell is empty; missing values in 1 row"),
    "too large": (cell(3, 1, "1e999"), r"line 3: column 'b': '1e999' is too large"),
    "Arabic digits": (cell(3, 1, "٣"), r"line 3: column 'b': '٣' is not a number"),
    "markup": (cell(3, 1, "[red]1[/red]"), r"line 3: column 'b': '\[red\]1\[/red\]' is not a number"),
    "escape": (cell(3, 1, "\x1b[2J1"), r"line 3: column 'b': '\\x1b\[2J1' is not a number"),
    "direction": (cell(3, 1, "1\u202e2"), r"line 3: column 'b': '1\\u202e2' is not a number"),
    "NUL": (cell(3, 1, "1\x002"), r"line 3: column 'b': .*is not a number"),
    "NUL label": (cell(3, 3, "y\x00"), r"line 3: the label 'y\\x00' holds a NUL character"),
    "no label": (cell(4, 3, ""), r"line 4: the label \(column 'kind'\) is missing"),
    "nan label": (cell(4, 3, "nan"), r"line 4: the label \(column 'kind'\) is missing"),
    "short row": (lambda rows: rows[3].pop(), r"line 4: has 3 cells where 4 are expected"),
    "long row": (lambda rows: rows[3].append("1"), r"line 4: has 5 cells where 4 are expected"),
    "open quote": (cell(5, 3, '"never closed'), r"line 5: unexpected end of data"),
    "after a quoted number": (cell(3, 1, '"1"2'), r"line 3: '.' expected after '\"'"),
    "after a quoted label": (cell(4, 3, '"yes"x'), r"line 4: '.' expected after '\"'"),
    "same name": (cell(1, 1, "a"), r"line 1: two columns are named 'a'"),
    "no name": (cell(1, 0, ""), r"line 1: column 1 has no name"),
    "text column": (
        lambda rows: [row.__setitem__(1, f"t{i}") for i, row in enumerate(rows) if i],
        r"line 2: column 'b': 't1' is not a number; of text: column 'b' \(option categorical or, of the lab",
    ),
}  # fmt: skip
SVMLIGHT = {
    b"1 1:1\n1 1:nan\n": r"line 2: .*'nan' is not finite",
    b"1 1:1\nx 1:1\n": r"line 2: the label 'x' is not a number",
    b"1 1:1\n1 2:\n": r"line 2: the value of feature 2 is empty",
    b"1 1:1\n1 2:1 2:2\n": r"line 2: index 2 appears twice",
    b"1 1:1\n1 3:1 2:2\n": r"line 2: index 2 comes after index 3",
    b"1 1:1\n1 0:1\n": r"line 2: index 0 in '0:1': indices start at 1",
    b"1 1:1\n-1 99999999999:2\n": r"line 2: index 99999999999 .* is larger than",
    b"1 1:1\n-1 1:1e999\n": r"line 2: the value of feature 1 '1e999' is too large",
    b"1 1:1\n-1 1:\x1b[2J\n": r"line 2: the value of feature 1 '\\x1b\[2J' is not a number",
    b"1 1:1\n1,2 1:1\n": r"line 2: the label '1,2' has a comma",
    b"1 1:1\n1 qid:3 1:2\n": r"line 2: query ids",
    b"1 1:1\n-1 100000000:2\n": r"has the index 100,000,000: each vector of weights takes 0\.8 GB",
    b"1 1:1\n1 1:2\n": r"has one class",
}


# Files of another kind, and tables that are nearly right.
INSTEAD = {
    "a,b,y\n1,2,é\n".encode("utf-16"): "is not UTF-8 text but UTF-16; save it as UTF-8",
    "a,b,y\n1,2,é\n".encode("utf-32"): "is not UTF-8 text but UTF-32; save it as UTF-8",
    "a,b,y\n1,2,é\n".encode("latin-1"): "line 2: is not UTF-8 text; save it with that encoding",
    b"PK\x03\x04\xff\xfe": "a zip archive or a workbook",
    b"\xd0\xcf\x11\xe0\xa1\xb1": "a workbook; save the sheet as CSV",
    b"\x28\xb5\x2f\xfd\xff": "compressed by zstd",
    b"a,b,y,\n1,2,0,\n": "column 4 has no name (a separator at the end of the line?)",
    b"a,b,y\n1\n": "has 1 cell where 3 are expected",
    b"a,b,y\n1," + b"9" * 5000 + b",0\n": "9'... is too large for a float",
    b"2019,2020,y\n1,2,0\n3,4,1\n": "line 1: the label 'y' is the only one that is no number",
    b"y,a,b\nk,1,2\nl,3,4\n": "column 'y' (option categorical or, of the labels, target)",
}


def hostile():
    """Name, content and what must be said of every hostile file; packings and separators take turns."""
    packings = itertools.cycle(PACKED.items())
    for (kind, (change, said)), (name, separator) in itertools.product(DEFECTS.items(), SEPARATORS.items()):
        ending, pack = next(packings)
        yield f"{kind}, {name}.csv{ending}", pack(table(change, separator)), said
    for content, said in SVMLIGHT.items():
        ending, pack = next(packings)
        yield f"data.svm{ending}", pack(content), said
    good = table(lambda rows: None)
    for ending, pack in PACKED.items():
        yield f"empty.csv{ending}", pack(b""), "is empty"
        yield f"blank.csv{ending}", pack(b"\n \n\n"), "is empty"
        yield f"header.csv{ending}", pack(b"a,b,c\n"), "holds a header and no rows"
        yield f"utf16.csv{ending}", pack(good.decode().encode("utf-16")), "line 1: is not UTF-8 text"
        yield f"latin1.csv{ending}", pack(good + "1,2,3,grün\n".encode("latin-1")), "line 6: is not UTF-8"
        yield f"one.csv{ending}", pack(b"1\n2\n"), "line 1: has one column"
        if ending:
            yield f"torn.csv{ending}", pack(good * 50)[:-9], "cannot be decompressed"
            yield f"lie.csv{ending}", good, "cannot be decompressed"
    for name in ("[red]x.csv", "a\x1b[2Jb.csv", "a\nb.csv", "\u202evsc.csv"):
        yield name, b"a,l\n1,x\noops,y\n3,z\n", r"line 3: column 'a': 'oops' is not a number"
    for content, said in INSTEAD.items():
        yield "t.csv", content, re.escape(said)
    yield "t.parquet", b"PAR1\xff\xfe\n", "a Parquet file"
    yield "t.npy", b"\x93NUMPY\x01\n", "an array of NumPy"
    yield "t.svm", b"1\n-1\n", "no row lists a feature, and how many there are is not known"
    yield (
        "many.csv",
        b"a,l\n" + b"".join(b"%d,c%d\n" % (i, i) for i in range(300)),
        (r"300 different labels, which make 44,850 pairs .* 'l' .*--large"),
    )


def test_hostile_file_is_told_in_sentence(tmp_path):
    """Each hostile file gives one sentence, of characters that can be seen, that names the place."""
    for name, content, said in hostile():
        path = tmp_path / name
        path.write_bytes(content)
        done = run("fit", path, "--method", "svm", "--solver", "fast")
        shown = done.output
        assert done.exit_code == 2, (name, shown)
        assert isinstance(done.exception, SystemExit), (name, done.exception)
        assert re.search(said, shown), (name, shown)
        assert shown.startswith("error: "), (name, shown)
        assert shown.count("\n") == 1, (name, shown)
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown), (name, shown)
        path.unlink()


EXPECTED = np.array([[1, 2.5, -300], [0.5, 0, 7], [4, 5, 6], [7, 8, 9]])


def odd():
    """Name, content, form and labels of every odd file that says what the table says."""
    for (name, separator), (ending, pack), header, end, mark in itertools.product(
        SEPARATORS.items(), PACKED.items(), (True, False), ("\n", "\r\n", "\n\n"), (".", ",")
    ):
        if mark == "," and separator == ",":
            continue
        text = table(lambda rows: None, separator, header).decode().replace(".", mark).replace("\n", end)
        content = pack(text.encode("utf-8-sig" if end == "\r\n" else "utf-8"))
        # The compression shows in the first bytes; the name need not tell.
        for ending_told in {ending, ""}:
            yield f"{name}{header}.csv{ending_told}", content, Form(decimal=mark)
    quoted = "\n".join(",".join(f'" {cell} "' for cell in row) for row in ROWS)
    yield "quoted.csv", quoted.encode(), Form()
    spaced = "\n".join(", ".join(row) for row in ROWS)
    yield "spaced.csv", spaced.encode(), Form()
    yield "bars.csv", spaced.replace(", ", "|").encode(), Form(separator="|")
    yield "blanks.txt", spaced.replace(", ", " ").encode(), Form(separator="space")
    yield "old.csv", spaced.replace("\n", "\r").encode(), Form()


def test_odd_file_is_read_right(tmp_path):
    """Each odd file that says what the table says has its numbers, labels and names."""
    for name, content, form in odd():
        path = tmp_path / name
        path.write_bytes(content)
        found = load_data(str(path), None, form)
        assert found.X.dtype == np.float64, name
        assert found.X.tolist() == EXPECTED.tolist(), name
        assert found.y.tolist() == ["yes", "no", "yes", "no"], name
        assert found.feature_names in (None, ("a", "b", "c")), name


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["9007199254740992", "9007199254740993"], [9007199254740992, 9007199254740993]),
        (["99999999999999999998", "99999999999999999999"], None),
        (["001", "1"], None),
        (["01", "02"], None),
        (["1.0", "2.0"], None),
        (["1", "1.0"], None),
        (["+1", "1"], None),
        (["-0", "0"], None),
        (["-1", "+1"], [-1, 1]),
        (["0", "1"], [0, 1]),
        (["[red]c[/red]", "c0[/red]"], None),
    ],
)
def test_labels_are_kept_as_written(tmp_path, labels, expected):
    """Labels that are not plain integers stay the texts that they are, to the predicted file."""
    path = tmp_path / "t.csv"
    path.write_text("a,l\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels * 3)))
    y = read_csv(path).y
    assert y.tolist() == (labels if expected is None else expected) * 3
    model, out = tmp_path / "m.skops", tmp_path / "l"
    worked("fit", path, "--method", "svm", "--out", model)
    shown = worked("predict", model, path, "--out", out)
    assert "samples)" in shown
    assert set(out.read_text().split("\n")) <= {str(label) for label in y.tolist()} | {""}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "+1", "1.0", "-1"], [1, 1, 1, -1]),
        (["0.5", "2"], ["0.5", "2.0"]),  # names of classes, as a classifier takes them
        (["001", "1"], [1, 1]),
    ],
)
def test_svmlight_labels_are_numbers(tmp_path, labels, expected):
    """Labels of svmlight files are numbers, of which as many stay apart."""
    path = tmp_path / "t.svm"
    path.write_text("".join(f"{label} 1:{i}\n" for i, label in enumerate(labels)))
    assert load_data(str(path)).y.tolist() == expected


def mixed(path, n=40, gap=7, extra=""):
    rng = np.random.default_rng(0)
    lines = ["size;colour;weight;kind"]
    for i in range(n):
        size, weight = rng.normal() + 2 * (i % 2), rng.normal()
        colour = ("red", "blue", extra or "red")[0 if i % 2 else 1 + (i == gap + 1)]
        lines.append(f"{size:.3f};{colour};{'' if i == gap else f'{weight:.3f}'};{'no' if i % 2 else 'yes'}")
    path.write_text("\n".join(lines).replace(".", ",") + "\n")
    return path


@pytest.mark.parametrize(
    ("impute", "categorical"), [("median", "all"), ("most-frequent", "colour"), ("median", "1")]
)
def test_texts_and_gaps_are_as_fitted(tmp_path, impute, categorical):
    """Texts are encoded and gaps filled as at the fit, in a file with its columns in another order."""
    path, model, out = mixed(tmp_path / "t.csv"), tmp_path / "m.skops", tmp_path / "l"
    form = ("--decimal", ",", "--categorical", categorical, "--impute", impute)
    worked("fit", path, "--method", "svm", *form, "--out", model)
    worked("predict", model, path, "--decimal", ",", "--out", out)
    labels = out.read_text().split()
    # Other columns' order, a text that the fit did not see, and a gap.
    new = tmp_path / "new.csv"
    lines = [line.split(";") for line in path.read_text().splitlines()]
    new.write_text("\n".join(";".join([w, c, s]) for s, c, w, _ in lines) + "\n?;green;1\n")
    worked("predict", model, new, "--decimal", ",", "--out", out)
    assert out.read_text().split()[:-1] == labels


def test_imputed_value_is_of_training_rows(tmp_path):
    """A gap has the median or the most frequent value of the rows that are learned from."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,l\n1,x,0\n2,,1\n?,x,0\n4,y,1\n4,y,0\n")
    found = read_csv(path, categorical="all", impute="median")
    prepared, _ = fit_preparation(found)
    assert prepared.feature_names == ("a", "b_x", "b_y")
    assert prepared.X.tolist() == [[1, 1, 0], [2, 1, 0], [3, 1, 0], [4, 0, 1], [4, 0, 1]]
    frequent, _ = fit_preparation(read_csv(path, categorical=["b"], impute="most-frequent"))
    assert frequent.X[:, 0].tolist() == [1, 2, 4, 4, 4]
    part, _ = fit_preparation(found, found.X[:2])  # learns from its training rows alone
    assert part.X[:, 0].tolist() == [1, 2, 1.5, 4, 4]


@pytest.mark.parametrize("command", ["fit", "compare", "duals"])
def test_commands_take_texts_and_gaps(tmp_path, command):
    """Each command that fits takes texts and gaps if options say so, and names a gap otherwise."""
    path = mixed(tmp_path / "t.csv")
    data = (path,) if command == "fit" else ("--data", path)
    form = ("--method", "svm", "--decimal", ",", "--separator", "semicolon", "--categorical", "all")
    assert "t.csv" in worked(command, *data, *form, "--impute", "median")
    said = "line 9: column 'weight': the cell is empty; missing values in 1 row (line 9)"
    assert said in refused(command, *data, *form)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--categorical", "hue"), r"categorical='hue' is not a feature column of .*; it has size, colour"),
        (("--categorical", "kind"), r"categorical='kind' is not a feature column"),
        (("--categorical", "9"), r"categorical=9 is not a feature column"),
        (("--impute", "mean"), r"'--impute': .*'mean' is not one of 'median', 'most-frequent'"),
        (("--decimal", ";"), r"decimal must be '\.' or ',', not ';'"),
        (("--separator", "::"), r"separator must be one character, or comma, .*; not '::'"),
        (("--separator", ","), r"separator and decimal are both ','"),
    ],
)
def test_bad_form_is_named(tmp_path, options, said):
    """Options of the form that do not fit the file are named."""
    form = ("--method", "svm", "--decimal", ",", *options)
    assert re.search(said, refused("fit", mixed(tmp_path / "t.csv"), *form))


def test_column_is_no_feature(tmp_path):
    """Columns of identifiers, of no value, and of measurements as labels are told."""
    ids = write(tmp_path / "i.csv", ["id", "a", "l"], *([f"u{i}", i, i % 2] for i in range(1001)))
    with pytest.raises(DataFileError, match="column 'id' holds 1,001 different texts"):
        read_csv(ids, categorical="all")
    assert read_csv(ids, categorical=["id"]).preparation is not None
    gaps = write(tmp_path / "g.csv", ["a", "b", "l"], [1, "", 0], [2, "?", 1])
    with pytest.raises(DataFileError, match="column 'b' holds no value at all"):
        read_csv(gaps, impute="median")
    measured = write(tmp_path / "m.csv", ["u", "v", "y"], *([k, k % 5, f"{k * 0.37:.3f}"] for k in range(24)))
    told = refused("fit", measured, "-q")
    assert "24 different labels, which make 276 pairs of classes to fit from 24 rows" in told
    assert "Is column 'y' that of the labels (--target)? --large goes on" in told
    many = write(tmp_path / "c.csv", ["a", "l"], *([i, f"c{i % 101}"] for i in range(202)))
    with pytest.raises(ValueError, match="101 different labels, which make 5,050 pairs"):
        load_data(str(many))
    assert len(set(load_data(str(many), None, Form(large=True)).y.tolist())) == 101


def test_header_is_told_from_rows(tmp_path):
    """A first row is a header if its label comes in no other row, and a doubt is told."""
    whole = write(tmp_path / "n.csv", [2019, 2020, "y"], [1, 2, 0], [3, 4, 1])
    assert load_data(str(whole), "y").y.tolist() == [0, 1]
    words = write(tmp_path / "w.csv", [2019, 2020, "kind"], *[[k, -k, "io"[k % 2]] for k in range(8)])
    with pytest.warns(UserWarning, match="line 1: no other line has the label 'kind'"):
        assert len(load_data(str(words)).y) == 9
    texts = write(tmp_path / "t.csv", ["x", "u", "no"], ["w", "v", "yes"], ["x", "v", "no"])
    assert "line 1: was taken for a header" in refused("fit", texts, "--categorical", "all")
    named = write(tmp_path / "y.csv", ["a", "b", "y"], [1, 2, "y"], [3, 4, "n"])  # a name may be a label
    assert load_data(str(named)).y.tolist() == ["y", "n"]


@pytest.mark.parametrize("gap", ["N/A", "#N/A", "<NA>", "null", "NULL", "n/a"])
def test_gaps_of_other_programs(tmp_path, gap):
    """The words of other programs for a gap are gaps."""
    path = write(tmp_path / "t.csv", ["a", "b", "y"], [gap, 1, 0], [2, 3, 1], [4, 5, 0])
    assert np.isnan(load_data(str(path), form=Form(impute="median")).X[0, 0])
    assert "missing values in 1 row (line 2)" in refused("fit", path)


@pytest.mark.parametrize("cell", ["-", "none", "missing", r"\N"])
def test_other_words_are_no_gap(tmp_path, cell):
    """A word that is none of these is told how a gap is written."""
    path = write(tmp_path / "t.csv", ["a", "b", "y"], [1, cell, 0], [2, 3, 1], [4, 5, 0])
    assert "a missing value is an empty cell, NA, N/A" in refused("fit", path, "--impute", "median")


@pytest.mark.parametrize("digits", [101, 5000])
def test_long_numbers_are_texts(tmp_path, digits):
    """Labels of hundreds of digits are texts, and such an index or column is refused."""
    labels = ["1" * digits, "2" * digits]
    path = write(tmp_path / "t.csv", ["a", "b", "y"], *[[k, -k, labels[k % 2]] for k in range(4)])
    assert load_data(str(path)).y.tolist() == labels * 2
    assert "is not a column" in refused("fit", path, "--target", "1" * digits)
    index = write(tmp_path / "t.svm", ["1 1:1"], [f"-1 {'9' * digits}:1"])
    assert "line 2: index 999" in refused("fit", index)


def test_long_rows_are_read(tmp_path):
    """A table of few rows with 20,000 columns is read whole."""
    path = write(tmp_path / "wide.csv", *([*["1.25"] * 19_999, k, "ab"[k % 2]] for k in range(60)))
    found = read_csv(path)
    assert (found.X[:, :-1] == 1.25).all()
    assert found.X[:, -1].tolist() == list(range(60))


def test_standard_input_is_read(tmp_path):
    """A table or an svmlight file, packed or not, is read from standard input and from a pipe."""
    content = table(lambda rows: rows.extend(ROWS * 5))
    for pack in PACKED.values():
        assert "of 24 samples" in worked("fit", "-", "--method", "svm", given=pack(content))
    assert "of 2 samples" in worked("fit", "-", "--method", "svm", given=b"1 1:2\n-1 2:1\n")
    read, ready = os.pipe()
    os.write(ready, content)
    os.close(ready)
    assert load_data(f"/dev/fd/{read}", "kind").target == "kind"
    os.close(read)
    with pytest.raises(DataFileError, match="/dev/null: is empty"):
        load_data("/dev/null")


def test_stream_is_named_once(tmp_path):
    """Standard input or a pipe that several --data name is refused, a file is not."""
    compare = ("compare", "--methods", "svm")
    said = "standard input can be read once, and --data names it 2 times"
    assert said in refused(*compare, "--data", "-", "--data", "-")
    assert said in refused(*compare, "--data", "-", "--data", "/dev/stdin")
    table, pipe = small_table(tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "can be read once" in refused(*compare, "--data", pipe, "--data", table, "--data", pipe)
    threading.Thread(target=pipe.write_bytes, args=(table.read_bytes(),), daemon=True).start()
    worked(*compare, "--data", pipe, "--data", table, "--data", table, "-q")


def test_data_beyond_memory_are_told(tmp_path, monkeypatch):
    """A table that would not fit in memory is told, before it is read and while it is unpacked."""
    path = write(tmp_path / "t.csv", ["a", "l"], *[[1, 0], [2, 1]] * 5000)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for module in ("tables", "source"):
        monkeypatch.setattr(f"polyopt.datasets.{module}.memory", lambda: 100_000)
    with pytest.raises(DataFileError, match=r"has about 10,00\d rows of 2 columns, and takes 0.0 GB"):
        read_csv(path)
    with pytest.raises(DataFileError, match=r"holds more than 0\.0 GB of text"):
        open_source(packed)
    with pytest.raises(DataFileError, match="holds more than"):
        open_source("/dev/zero")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(table(lambda rows: rows.extend(ROWS * 5)))
    worked("fit", path, "--method", "svm", "--out", tmp_path / "m.skops")
    return tmp_path / "m.skops"


def test_outputs_replace_inputs_by_force(model, tmp_path):
    """An output does not replace a file that is read, by any name, unless --force says so."""
    data, link = tmp_path / "t.csv", tmp_path / "link.csv"
    os.link(data, link)
    before, saved = data.read_bytes(), model.read_bytes()
    for arguments in (
        ("predict", model, data, "--out", data),
        ("predict", model, data, "--out", link),
        ("predict", model, data, "--out", model),
        ("fit", data, "--method", "svm", "--out", link),
        ("compare", "--data", data, "--report", data),
    ):
        assert "is the file that is read" in refused(*arguments)
    assert data.read_bytes() == before
    assert model.read_bytes() == saved
    worked("fit", data, "--method", "svm", "--out", model, "--force")
    worked("predict", model, data, "--out", link, "--force")
    assert set(link.read_text().split()) <= {"yes", "no"}
    assert data.read_bytes() == before  # the link was replaced, and what it shared its content with is whole
    worked("compare", "--data", data, "--method", "svm", "--report", data, "--force")
    assert data.read_text().startswith("<!")


def test_folder_as_output_is_refused(model, tmp_path):
    """A folder as output is refused before the work, and as a model too."""
    for line in (
        ("fit", "sonar", "--out"),
        ("predict", model, tmp_path / "t.csv", "--out"),
        ("compare", "--report"),
    ):
        assert "is a folder; give the name of a file" in refused(*line, tmp_path)
    assert f"{tmp_path} is a folder" in refused("info", tmp_path)


def test_columns_are_found_by_name(model, tmp_path):
    """Columns are found by name in any order, or by position if asked or without a header."""
    new, out = tmp_path / "new.csv", tmp_path / "l"

    def predicted(text, *options):
        new.write_text(text)
        said = worked("predict", model, new, *options, "--out", out)
        return out.read_text(), said

    def told(text):
        new.write_text(text)
        return refused("predict", model, new)

    wanted, _ = predicted("a,b,c\n1,2,3\n")
    assert predicted("x,y,z\n1,2,3\n", "--by-position")[0] == wanted
    assert predicted("c,b,a\n3,2,1\n")[0] == wanted
    assert predicted("a|b|c\n1|2|3\n", "--separator", "|")[0] == wanted
    labels, said = predicted("1,2,3\n")
    assert labels == wanted
    assert "has no header: its columns are taken in order" in said
    named = told("x,y,z\n1,2,3\n")
    assert re.search(r"has the columns 'x', 'y', 'z', and none of the model's, .* 'a', 'b', 'c'", named)
    assert "lacks the column 'a' and has a column 'd'" in told("c,b,d\n3,2,1\n")
    assert "; --separator says what separates them" in told("a|b|c\n1|2|3\n")


def nasty(path, labels, header=("[b]x[/b]", "<i>y</i>")):
    rng = np.random.default_rng(0)
    lines = [",".join([*header, "l"])]
    for i in range(40):
        x, y = rng.normal(size=2) + 2 * (i % 2)
        lines.append(f'{x:.3f},{y:.3f},"{labels[i % len(labels)]}"')
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["c0[/red]", "[red]c1[/red]"],) * 2,
        (["a\x1b[31mb", "c\u202ed"], [r"a\x1b[31mb", r"c\u202ed"]),
        (["two\nlines", ":smile:"], [r"two\nlines", ":smile:"]),
        (["<script>x</script>", "$\\frac$"], ["<script>x</script>", "$\\frac$"]),
    ],
)
def test_labels_are_shown_and_not_interpreted(tmp_path, labels, shown):
    """Labels and names from a file are texts to the terminal, to rich and to a page."""
    path, model, page = nasty(tmp_path / "t.csv", labels), tmp_path / "m.skops", tmp_path / "p.html"
    worked("fit", path, "--method", "spla1", "--set", "n_init=1", "--out", model)
    rules = worked("rules", model)
    assert "[b]x[/b]" in rules
    assert all(label in rules for label in shown)
    duals = worked("duals", "--data", path, "--method", "svm")
    assert all(label in duals for label in shown)
    written = worked("compare", "--data", path, "--methods", "svm", "--report", page)
    assert not re.search("[\x1b\u202e]", rules + duals + written)
    content = page.read_text()
    assert "<script>x" not in content
    assert not re.search("[\x1b\u202e]", content)
