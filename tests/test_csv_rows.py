"""Rows of CSV files: what is read, and what is said about a file that cannot be."""

import codecs
import csv
import gzip
import io
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokensel import csv_rows
from tokensel.csv_rows import CsvRows

TWO = "text,label\na good kettle,1\nit leaks,0\n"
ROWS = [("a good kettle", 1), ("it leaks", -1)]


@pytest.fixture
def write(tmp_path):
    def write(content, name="reviews.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def read(write):
    return lambda content, **arguments: list(CsvRows(write(content), **COLUMNS | arguments))


@pytest.fixture
def complaint(read):
    """What a file is refused with."""

    def complaint(content, **arguments):
        with pytest.raises(ValueError, match=r"reviews\.csv") as error:
            read(content, **arguments)
        return str(error.value)

    return complaint


COLUMNS = {"text": "text", "label": "label"}


# What is read


@pytest.mark.parametrize(
    ("encoding", "argument"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-8-sig", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-32", None),
        ("cp1252", "cp1252"),
        ("cp1252", "Windows-1252"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_encodings_and_gzip(read, encoding, argument, compressed):
    content = "text,label\nnaïve café,1\nœuvre – “gone”,0\n".encode(encoding)
    rows = read(gzip.compress(content) if compressed else content, encoding=argument)
    assert rows == [("naïve café", 1), ("œuvre – “gone”", -1)]


def test_both_kinds_of_utf_16_are_known_by_their_mark(read):
    big = codecs.BOM_UTF16_BE + TWO.encode("utf-16-be")
    small = codecs.BOM_UTF16_LE + TWO.encode("utf-16-le")
    assert read(big) == read(small) == read(small, encoding="utf-16-le") == ROWS


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["Unix", "Windows", "old Mac"])
def test_delimiters_and_line_ends(read, delimiter, end):
    row = delimiter.join
    lines = [
        row(["id", "label", "text"]),
        row(["1", "yes", '"commas, semicolons; tabs\t and | bars"']),
        row(["2", "no", f'"two{end}lines and ""quotes"""']),
    ]
    expected = [("commas, semicolons; tabs\t and | bars", 1), (f'two{end}lines and "quotes"', -1)]
    assert read(end.join(lines)) == expected
    assert read(end.join(lines), delimiter=delimiter) == expected


def test_the_delimiter_is_the_one_with_which_both_columns_are_there(read):
    assert read("text;label,or so;label\na;x,y;1\nb;z;0\n") == [("a", 1), ("b", -1)]
    assert read('"text"; "label"\n"a"; "1"\n"b"; "0"\n') == [("a", 1), ("b", -1)]
    assert read("text~label\na~1\nb~0\n", delimiter="~") == [("a", 1), ("b", -1)]


def test_empty_rows_are_skipped(read):
    content = '\n  \ntext,label\n\n,\na good kettle,1\n" ", \n\nit leaks,0\n\n,\n'
    assert read(content) == ROWS


def test_an_empty_text_is_a_row(read):
    assert read("text,label\n,1\nit leaks,0\n") == [("", 1), ("it leaks", -1)]


def test_columns_by_name_in_any_place_with_blanks_around_names_and_classes(read):
    assert read("label , n, text\n 1 ,7,a good kettle\n0,8,it leaks") == ROWS


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=20),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=60)
def test_whatever_csv_writes_is_read(tmp_path_factory, drawn, delimiter, end):
    drawn = [("good", True), ("bad", False), *drawn]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["text", "label"])
    writer.writerows(drawn)
    path = tmp_path_factory.mktemp("written") / "reviews.csv"
    path.write_bytes(buffer.getvalue().encode())
    assert list(CsvRows(path, **COLUMNS)) == [(text, 1 if label else -1) for text, label in drawn]


def test_rows_are_read_anew_for_each_loop(write):
    rows = CsvRows(write(TWO), **COLUMNS)
    assert list(rows) == list(rows) == ROWS
    first = iter(rows)
    assert next(first) == ROWS[0]
    assert list(rows) == ROWS  # while the other loop waits
    assert next(first) == ROWS[1]


def test_a_row_at_a_time(write):
    """Reading 20 MB may need what one line, one chunk of the file and its decompression need."""
    path = write(b"text,label\n" + b"".join(b"%d %s,%d\n" % (i, b"x" * 1000, i % 2) for i in range(20_000)))
    rows = CsvRows(path, **COLUMNS)
    tracemalloc.start()
    n = sum(1 for _ in rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n == 20_000
    assert peak < 1_000_000


# Classes


@pytest.mark.parametrize(
    ("negative", "positive"),
    [
        ("0", "1"),
        ("0.0", "1.0"),
        ("-1", "1"),
        ("-1", "+1"),
        ("neg", "pos"),
        ("Negative", "POSITIVE"),
        ("False", "True"),
        ("no", "Yes"),
    ],
)
def test_known_pairs_need_no_argument(read, negative, positive):
    assert read(f"text,label\na good kettle,{positive}\nit leaks,{negative}\n") == ROWS


STARS = "text,label\nb,5\na,4.0\nd,1\nc,3\nf,2\ne, 04 \n"


@pytest.mark.parametrize("positive", [[4, 5], ("4", "5.00"), {5.0, 4}, np.array([4, 5]), ["4", 5]])
def test_stars(read, positive):
    expected = [("b", 1), ("a", 1), ("d", -1), ("f", -1), ("e", 1)]
    assert read(STARS, positive=positive, negative=[1, 2]) == expected
    assert read(STARS, positive=positive, negative=(np.int64(1), "2")) == expected


def test_two_classes_of_any_spelling(read):
    content = "text,label\na good kettle,Très bien\nit leaks,BOF\n"
    assert read(content, positive="très bien") == ROWS
    assert read(content, negative="bof ") == ROWS
    assert read(content, positive=["Très bien"], negative=["bof"]) == ROWS
    assert read("text,label\na good kettle,True\nit leaks,False\n", positive=True) == ROWS
    assert read("text,label\na good kettle,0\nit leaks,1\n", positive=0) == ROWS  # an argument decides


def test_one_side_may_have_several_classes_and_the_other_the_rest(read):
    content = "text,label\nb,5\na,4\nc,1\n"
    assert read(content, positive=[4, 5]) == [("b", 1), ("a", 1), ("c", -1)]


@pytest.mark.parametrize(
    ("labels", "arguments", "words"),
    [
        ("good bad", {}, "which class is positive? Say positive="),
        ("neg positive", {}, "which class is positive?"),
        ("0 1 -1", {}, "which class is positive?"),
        ("0 -1", {}, "which class is positive?"),
        ("5 4 3 2 1", {}, "and of more than two also negative="),
        ("5 4 3 2 1", {"positive": 5}, "there are more than two classes: say also which are negative"),
        ("5 4 3 2 1", {"negative": 1}, "there are more than two classes: say also which are positive"),
        ("1 1", {}, "no row is negative, and two classes are needed"),
        ("0", {}, "no row is positive"),
        ("good", {"positive": "good"}, "no row is negative"),
        ("good", {"positive": "god"}, "no row is positive"),
        ("5 4 3 2 1", {"positive": 6, "negative": 0}, "no row is positive or negative"),
        ("5 4 3 2 1", {"positive": 5, "negative": 0}, "no row is negative"),
    ],
)
def test_classes_that_nobody_can_tell(complaint, labels, arguments, words):
    labels = labels.split()
    told = complaint("text,label\n" + "".join(f"a,{label}\n" for label in labels), **arguments)
    assert words in told
    assert "column 'label'" in told
    for label in labels:  # so that one can see what to say
        assert f"'{label}' ({labels.count(label)})" in told


def test_many_classes_are_counted_not_listed(complaint):
    told = complaint("text,label\n" + "".join(f"a,{k}\n" for k in range(50)))
    assert told.endswith("'5' (1) and 44 more")
    told = complaint("text,label\n" + "".join(f"a,{k}\n" for k in range(10_001)))
    assert told.endswith("it holds 10,000 classes or more: is it the column you mean?")


def test_no_rows(complaint):
    assert "there is no row below the names of the columns" in complaint("text,label\n\n")


# What a file is refused with: the line, what stands there, what is needed


def test_a_wrong_column_name(complaint):
    told = complaint("id;Text;label\n1;a;1\n")
    assert told.endswith("has no column 'text': its first row names 'id', 'Text', 'label'")
    told = complaint("a,b\n1,2\n", delimiter=",")
    assert told.endswith("has no column 'text' and no column 'label': its first row names 'a', 'b'")
    assert "'a,b,c'" in complaint("a,b,c\n1,2,3\n", delimiter=";")
    assert "2 columns named 'text'" in complaint("text,label,text\na,1,b\n")
    told = complaint(",".join("x" * 100 + str(k) for k in range(1000)))
    assert len(told) < 1500
    assert told.endswith(", ...")


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file(complaint, content):
    assert "is empty: its first row must name the columns" in complaint(content)


@pytest.mark.parametrize(("row", "n"), [("it leaks, badly,0", 3), ("it leaks", 1)])
def test_a_ragged_row(complaint, row, n):
    told = complaint(f'text,label\n"two\nlines",1\n\n{row}\nc,0\n')
    assert f"line 5: {n} columns, but the first row has 2" in told
    assert "a comma needs quotes" in told


def test_an_empty_class(complaint):
    told = complaint('text,label\n"two\nlines",1\nit leaks, \n')
    assert "line 4: the column 'label' is empty" in told


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("size", [0, 65_529, 200_000])  # also right across a chunk's end
def test_bytes_that_are_not_in_the_encoding(complaint, size, compressed):
    content = b"text,label\r\n" + b"x" * size + b",1\r\r\n" + "\ncafé,0\n".encode() + b"caf\xe9,0\n"
    told = complaint(gzip.compress(content) if compressed else content)
    assert "line 6: this is not UTF-8 (byte e9)" in told
    assert 'encoding="cp1252"' in told


def test_utf_16_that_is_not(complaint):
    odd = (TWO + "\n").encode("utf-16") + b"\x00\xd8\x41\x00"
    assert "line 5: this is not UTF-16 (byte 00 d8)" in complaint(odd)
    assert "this is not UTF-16 (byte 0a)" in complaint(TWO.encode("utf-16") + b"\n")
    assert "line 1: this is not UTF-16" in complaint(TWO.encode("utf-16-le"), encoding="utf-16")


def test_a_nul(complaint):
    assert "line 3: a NUL" in complaint("text,label\na,1\nb\0,0\n")
    told = complaint(TWO.encode("utf-16-le"))
    assert "line 1: a NUL" in told
    assert 'encoding="utf-16-le"' in told


def test_quotes_that_are_not_closed_or_not_doubled(complaint):
    told = complaint('text,label\na,1\n"b,0\nc,1\n')
    assert "lines 3 to 4: a quote that is opened here is not closed" in told
    told = complaint('text,label\na,1\n"he said "no" to me",0\n')
    assert "line 3: a quote inside a quoted text must be doubled" in told
    assert "first row: a quote" in complaint('"text,label\na,1\n')


def test_a_field_beyond_the_limit_of_csv(complaint):
    told = complaint('text,label\na,1\n"b,0\n' + "c,1\n" * csv.field_size_limit())
    assert "lines 3 to " in told
    assert "is a quote not closed?" in told
    assert f"more than {csv.field_size_limit():,} characters" in told


@pytest.mark.parametrize("cut", [15, -1, -9])
def test_a_damaged_gzip_file(complaint, cut):
    content = gzip.compress((TWO + "".join(f"{k} {k * k},1\n" for k in range(500))).encode())
    assert "is damaged" in complaint(content[:cut])


def test_a_gzip_file_with_a_wrong_checksum(complaint):
    content = bytearray(gzip.compress(TWO.encode()))
    content[-8] ^= 1
    assert "is damaged" in complaint(bytes(content))
    assert "is damaged" in complaint(b"\x1f\x8bnothing of the kind")


def test_a_spreadsheet(complaint, read):
    assert "save it as CSV" in complaint(b"PK\x03\x04rest of a workbook")
    assert read("PK,text,label\n1,a good kettle,1\n2,it leaks,0\n") == ROWS


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"text": 0}, TypeError, "text must be the name of a column"),
        ({"label": None}, TypeError, "label must be the name of a column"),
        ({"label": "text "}, ValueError, "two columns"),
        ({"positive": [4, 5], "negative": [1, "4.0"]}, ValueError, "share a class, but both have 4"),
        ({"positive": []}, ValueError, "positive must name at least one class"),
        ({"negative": " "}, ValueError, "negative must name at least one class"),
        ({"positive": [float("nan")]}, TypeError, "positive must be a class"),
        ({"positive": b"1"}, TypeError, "positive must be a class"),
        ({"positive": [None]}, TypeError, "positive must be a class"),
        ({"encoding": 8}, TypeError, "encoding must be the name"),
        ({"encoding": "utf-9"}, ValueError, "encoding must be known to Python"),
        ({"encoding": "base64"}, ValueError, "encoding must be known to Python"),
        ({"encoding": "utf-8\0"}, ValueError, "encoding must be known to Python"),
        ({"encoding": "\ud800"}, ValueError, "encoding must be known to Python"),
        ({"positive": 10**5000}, ValueError, "positive holds a number that is too long"),
        ({"delimiter": 1}, TypeError, "delimiter must be a str"),
        ({"delimiter": ", "}, ValueError, "delimiter must be one character"),
        ({"delimiter": '"'}, ValueError, "delimiter must be one character"),
    ],
)
def test_arguments_that_cannot_be(write, arguments, error, words):
    with pytest.raises(error, match=words):
        CsvRows(write(TWO), **COLUMNS | arguments)


def test_a_path_that_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        CsvRows(tmp_path / "nowhere.csv", **COLUMNS)
    with pytest.raises(IsADirectoryError):
        CsvRows(tmp_path, **COLUMNS)
    with pytest.raises(TypeError, match=r"path must be a path, as str or pathlib\.Path"):
        CsvRows(io.StringIO(TWO), **COLUMNS)
    with pytest.raises(ValueError, match="path must not begin with a home folder that nobody has"):
        CsvRows("~nobody-of-this-name/reviews.csv", **COLUMNS)
    for impossible in ("a\0.csv", "\ud800.csv"):
        with pytest.raises(ValueError, match="path must be a path that can exist"):
            CsvRows(impossible, **COLUMNS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_or_a_device_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match=r"path must name a file, but .* is a device or a pipe"):
            CsvRows(path, **COLUMNS)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(write, monkeypatch):
    monkeypatch.setattr(csv_rows, "LONGEST_LINE", 10_000)
    path = write(gzip.compress(b"text,label\n" + b"a" * 20_000_000))
    rows = CsvRows(path, **COLUMNS)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"reviews\.csv, line 2: over 10,000 characters; is it a CSV file\?"):
        list(rows)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000  # a tenth of the line


def test_a_class_that_is_not_there_is_named(complaint):
    told = complaint("text,label\na,1\nb,0\n", positive=True)
    assert "as negative=[...], beside the positive ones (true); its classes (and their rows) are '1'" in told


# What decides the rows


def test_the_source_names_the_contents_and_how_they_are_read(write):
    path, copy, other = write(TWO), write(TWO, "copy.csv"), write(TWO + "c,1\n", "other.csv")
    source = CsvRows(path, **COLUMNS).source()
    assert CsvRows(copy, **COLUMNS).source() == source
    assert CsvRows(copy, **COLUMNS, delimiter=",", encoding="UTF8").source() == source
    different = [
        CsvRows(other, **COLUMNS),
        CsvRows(path, **COLUMNS, positive=0),
        CsvRows(path, **COLUMNS, negative=0),
        CsvRows(path, **COLUMNS, positive=0, negative=1),
        CsvRows(path, **COLUMNS, encoding="cp1252"),
    ]
    sources = [source, *(rows.source() for rows in different)]
    assert all(a != b for k, a in enumerate(sources) for b in sources[:k])
