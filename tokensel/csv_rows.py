"""Texts and their classes out of a CSV file, row by row: the file is never held in memory."""

import codecs
import csv
import gzip
import io
import numbers
import re
import reprlib
import zlib
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from itertools import chain, islice

from tokensel.arguments import file_path
from tokensel.counting import digest

# Longer marks first: the one of UTF-32 begins with the one of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}

#: Two classes that need no argument: (negative, positive).
_KNOWN_PAIRS = [
    (Decimal(0), Decimal(1)),
    (Decimal(-1), Decimal(1)),
    ("neg", "pos"),
    ("negative", "positive"),
    ("false", "true"),
    ("no", "yes"),
]
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")

# A message shows the most frequent classes and the first columns only; there may be as many as rows.
_SHOWN_CLASSES = 6
_SHOWN_COLUMNS = 20
_COUNTED_CLASSES = 10_000

#: Characters that a line may have. A few bytes of gzip can stand for a line that fills the memory.
LONGEST_LINE = 100_000_000


class CsvRows:
    r"""The rows of a CSV file as pairs (text, label), with labels -1 and +1; read anew for each loop.

    What the file is (its encoding, its delimiter, its columns) is found out when the object is made; rows are
    read when it is looped over, one at a time.

    Parameters
    ----------
    path : path
        The file, plain or compressed with gzip. Its first row names the columns.
    text, label : str
        Names of the columns with the texts and with their classes.
    positive, negative : str, number or list of them, optional
        Which classes are positive and which negative; see `tokensel.datasets.from_csv`.
    encoding : str, optional
        By default UTF-8, or what the mark at the beginning of the file says (UTF-8, UTF-16 or UTF-32).
    delimiter : str, optional
        By default the one of comma, semicolon, tab and vertical bar that splits the first row into columns
        with both names among them.

    Raises
    ------
    TypeError
        If an argument is not of the kind above.
    ValueError
        If the file is none that can be read so; the message names the file, the line, what stands there and
        what is needed. What is wrong with a row is raised when the loop comes to it, what is wrong with the
        classes at the latest after the last row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "kettles.csv")
    >>> _ = path.write_text("stars;review\n5;Lovely, quiet kettle\n1;It leaks\n3;It boils water\n")
    >>> list(CsvRows(path, text="review", label="stars", positive=[4, 5], negative=[1, 2]))
    [('Lovely, quiet kettle', 1), ('It leaks', -1)]
    >>> folder.cleanup()
    """

    def __init__(self, path, text, label, positive=None, negative=None, encoding=None, delimiter=None):
        self.path = file_path("path", path)
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            raise ValueError(
                f"path must name a file, but {self.path} is a device or a pipe: copy it to a file"
            )
        for name, column in (("text", text), ("label", label)):
            if not isinstance(column, str):
                raise TypeError(f"{name} must be the name of a column, a str; got {column!r}")
        if text.strip() == label.strip():
            raise ValueError(f"text and label must name two columns, but both are {text!r}")
        self._columns = {"text": text.strip(), "label": label.strip()}
        self._given = {1: _spellings("positive", positive), -1: _spellings("negative", negative)}
        both = (self._given[1] or set()) & (self._given[-1] or set())
        if both:
            raise ValueError(f"positive and negative must not share a class, but both have {_shown(both)}")
        self.encoding, self._compressed = self._look(encoding)
        self.delimiter, self._names = self._read_header(delimiter)

    def source(self):
        """What decides the rows, as a dict of str and lists of str: the file's SHA-256 and how it is read."""
        classes = {
            name: None if self._given[sign] is None else sorted(map(str, self._given[sign]))
            for name, sign in (("positive", 1), ("negative", -1))
        }
        how = {"encoding": self.encoding, "delimiter": self.delimiter}
        return {"format": "csv", "sha256": digest(self.path)} | self._columns | how | classes

    def __iter__(self):
        text, label = self._positions()
        classes = _Classes(self._given)
        for line, row in islice(self._records(), 1, None):
            spelling = row[label].strip()
            if not spelling:
                raise ValueError(
                    f"{self.path}, line {line}: the column {self._columns['label']!r} is empty; every row "
                    "needs a class: fill it in, or leave the row out"
                )
            sign = classes.sign(spelling)
            if classes.doubt:
                break
            if sign:
                yield row[text], sign
        if (doubt := classes.verdict()) is not None:
            raise ValueError(f"{self.path}, column {self._columns['label']!r}: {doubt}; {self._found()}")

    def _records(self):
        """(number of its first line, fields) of each row that is not empty, the first one included."""
        with self._lines() as lines:
            reader = csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True, strict=True)
            while True:
                line = reader.line_num + 1
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    raise ValueError(f"{self.path}, {_where(line, reader.line_num)}: {_why(error)}") from None
                if _is_empty(row):
                    continue
                if len(row) != len(self._names):
                    delimiter = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
                    raise ValueError(
                        f"{self.path}, {_where(line, reader.line_num)}: {len(row)} columns, but the first "
                        f"row has {len(self._names)}; a text that holds a {delimiter} needs quotes around it"
                    )
                yield line, row

    def _lines(self):
        return _Lines(self.path, self.encoding, self._compressed)

    def _look(self, encoding):
        """The encoding, and whether the file is compressed, from the argument and the first bytes."""
        with self.path.open("rb") as file:
            start = file.read(4)
        if start == b"PK\x03\x04":
            raise ValueError(
                f"{self.path} is a zip archive or a spreadsheet (.xlsx, .ods), not a CSV file: save it as CSV"
            )
        if compressed := start.startswith(b"\x1f\x8b"):
            try:
                with gzip.open(self.path) as file:
                    start = file.read(4)
            except (EOFError, OSError, zlib.error) as error:
                raise ValueError(f"{self.path} is damaged: {error}") from error
        if encoding is None:
            marks = _BYTE_ORDER_MARKS.items()
            return next((name for mark, name in marks if start.startswith(mark)), "utf-8"), compressed
        if not isinstance(encoding, str):
            raise TypeError(f"encoding must be the name of an encoding, a str; got {encoding!r}")
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)
        except (LookupError, ValueError) as error:  # a name with a NUL or a lone surrogate is a ValueError
            raise ValueError(
                f"encoding must be known to Python, such as 'cp1252'; got {encoding!r:.60}: {error!s:.60}"
            ) from None
        return codecs.lookup(encoding).name, compressed

    def _read_header(self, delimiter):
        """The delimiter and the names of the columns."""
        if delimiter is None:
            candidates = list(_DELIMITERS)
        elif not isinstance(delimiter, str):
            raise TypeError(f"delimiter must be a str of one character, got {delimiter!r}")
        elif len(delimiter) != 1 or delimiter in '"\r\n \0':
            raise ValueError(
                f"delimiter must be one character, and neither a quote, a space nor a line's end; "
                f"got {delimiter!r}"
            )
        else:
            candidates = [delimiter]
        most, error = [], None
        for candidate in candidates:
            try:
                names = self._first_row(candidate)
            except csv.Error as complaint:  # quotes stand wrongly for this delimiter
                error = error or complaint
                continue
            if set(self._columns.values()) <= set(names):
                for name in self._columns.values():
                    if names.count(name) > 1:
                        raise ValueError(f"{self.path} has {names.count(name)} columns named {name!r}")
                return candidate, names
            most = max(most, names, key=len)
        if not most:
            raise ValueError(f"{self.path}, first row: {_why(error)}")
        missing = " and no column ".join(repr(name) for name in self._columns.values() if name not in most)
        shown = ", ".join(map(reprlib.repr, most[:_SHOWN_COLUMNS])) + (", ..." * (len(most) > _SHOWN_COLUMNS))
        raise ValueError(f"{self.path} has no column {missing}: its first row names {shown}")

    def _first_row(self, delimiter):
        """The names that the first row holds when it is split at a delimiter."""
        with self._lines() as lines:
            for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True):
                if not _is_empty(row):
                    return [name.strip() for name in row]
        raise ValueError(f"{self.path} is empty: its first row must name the columns")

    def _positions(self):
        return tuple(self._names.index(name) for name in self._columns.values())

    def _found(self):
        """Words for the classes that the column holds, most frequent first."""
        _, label = self._positions()
        found, spelled = Counter(), {}
        for _, row in islice(self._records(), 1, None):
            key = _key(row[label])
            spelled.setdefault(key, row[label].strip())
            found[key] += 1
            if len(found) == _COUNTED_CLASSES:
                return f"it holds {_COUNTED_CLASSES:,} classes or more: is it the column you mean?"
        if not found:
            return "there is no row below the names of the columns"
        shown = [f"{reprlib.repr(spelled[key])} ({n:,})" for key, n in found.most_common(_SHOWN_CLASSES)]
        more = f" and {len(found) - len(shown):,} more" if len(found) > len(shown) else ""
        return f"its classes (and their rows) are {', '.join(shown)}{more}"


class _Lines:
    """The lines of a file as str, to loop over once; errors name the line."""

    def __init__(self, path, encoding, compressed):
        self.path, self.encoding, self.compressed = path, encoding, compressed

    def _open(self):
        return gzip.open(self.path) if self.compressed else self.path.open("rb")

    def __enter__(self):
        self._file = self._open()
        self._text = io.TextIOWrapper(self._file, self.encoding, newline="")
        return self._read()

    def __exit__(self, *exception):
        self._text.close()

    def _read(self):
        number = 0
        try:
            for number, line in enumerate(lines_of(self._text), start=1):
                if "\0" in line:
                    raise ValueError(
                        f"{self.path}, line {number}: a NUL, which no text holds; if the file is in UTF-16, "
                        'say encoding="utf-16-le"'
                    )
                if len(line) > LONGEST_LINE:
                    raise ValueError(
                        f"{self.path}, line {number}: over {LONGEST_LINE:,} characters; is it a CSV file?"
                    )
                yield line.lstrip("\ufeff") if number == 1 else line
        except UnicodeError as error:
            line, wrong = self._undecodable()
            raise ValueError(
                f"{self.path}, line {line}: this is not {self.encoding.upper()} ({wrong}); say which "
                'encoding the file has, such as encoding="cp1252" (Windows, Western Europe) or "utf-16-le"'
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{self.path} is damaged after line {number}: {error}") from error

    def _undecodable(self):
        """The line of the first bytes that are not in the encoding, and those bytes: a second reading."""
        decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(self.encoding)(), translate=True)
        line = 1
        with self._open() as file:
            for chunk in chain(iter(lambda: file.read(1 << 16), b""), [b""]):
                state = decoder.getstate()
                try:
                    line += decoder.decode(chunk, final=not chunk).count("\n")
                except UnicodeError:
                    decoder.setstate(state)
                    break
        try:
            for k in range(len(chunk)):  # once more through the chunk, to the very byte
                line += decoder.decode(chunk[k : k + 1]).count("\n")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            return line, f"byte {error.object[error.start : error.end].hex(' ')}"
        except UnicodeError as error:  # UTF-16 without the mark that says which of its two kinds it is
            return line, str(error)
        return line, "the file changes while it is read"


def lines_of(file):
    """The lines of an open text file, each read no further than one character beyond `LONGEST_LINE`."""
    return iter(partial(file.readline, LONGEST_LINE + 1), "")


class _Classes:
    """Which spelling means which class, as far as the rows so far tell."""

    def __init__(self, given):
        self._given = given
        self._signs = {}  # spelling -> sign, of the spellings met that belong to a class
        self._met = set()  # keys of the classes met, where they are not all given
        self.doubt = None

    def sign(self, spelling):
        """Return +1 or -1, or 0 for a class that was not asked for; set `doubt` where nobody can know."""
        if spelling not in self._signs:
            sign = self._decide(_key(spelling))
            if sign == 0:
                return 0  # not remembered: there may be as many such classes as rows
            self._signs[spelling] = sign
        return self._signs[spelling]

    def verdict(self):
        """Words for what is wrong with the classes, or None."""
        if self.doubt is None and set(self._signs.values()) != {-1, 1}:
            there = {1: "positive", -1: "negative"}
            missing = [name for sign, name in there.items() if sign not in self._signs.values()]
            return f"no row is {' or '.join(missing)}, and two classes are needed"
        return self.doubt

    def _decide(self, key):
        positive, negative = self._given[1], self._given[-1]
        for sign, classes in self._given.items():
            if classes is not None and key in classes:
                return sign
        if positive is not None and negative is not None:
            return 0
        self._met.add(key)
        if positive is None and negative is None:
            for pair in _KNOWN_PAIRS:
                if self._met <= set(pair):
                    return -1 if key == pair[0] else 1
            self.doubt = "which class is positive? Say positive=..., and of more than two also negative=..."
        elif len(self._met) > 1:
            name, other = ("negative", "positive") if negative is None else ("positive", "negative")
            self.doubt = (
                f"there are more than two classes: say also which are {name}, as {name}=[...], beside the "
                f"{other} ones ({_shown(positive if negative is None else negative)})"
            )
        return -1 if negative is None else 1


def _spellings(name, classes):
    """Read the argument positive or negative as a set of keys, or None."""
    if classes is None:
        return None
    if isinstance(classes, str | bytes | numbers.Number) or not isinstance(classes, Iterable):
        classes = [classes]
    keys = set()
    for value in classes:
        if getattr(value, "ndim", None) == 0:  # NumPy's scalars
            value = value.item()
        if not isinstance(value, str | bool | numbers.Real) or value != value:
            raise TypeError(f"{name} must be a class, as str or number, or a list of them; got {value!r}")
        try:
            keys.add(_key(str(value)))
        except ValueError as error:  # a whole number of thousands of digits
            raise ValueError(f"{name} holds a number that is too long: {error}") from None
    if not keys or "" in keys:
        raise ValueError(f"{name} must name at least one class, and none that is empty; got {classes!r}")
    return keys


def _key(spelling):
    """What two spellings of one class share: the value of a number, or the letters without case."""
    spelling = spelling.strip()
    return Decimal(spelling) if _NUMBER.fullmatch(spelling) else spelling.casefold()


def _is_empty(row):
    """Whether a row holds nothing: a blank line, or the bare delimiters that spreadsheets leave."""
    return not any(field and not field.isspace() for field in row)


def _shown(keys):
    return ", ".join(sorted(map(str, keys)))


def _where(first, last):
    return f"line {first}" if last <= first else f"lines {first} to {last}"


def _why(error):
    """The csv module's complaint in a reader's words."""
    complaint = str(error)
    if "field limit" in complaint:
        return (
            "a text longer than the csv module allows: is a quote not closed? If texts are that long, "
            f"csv.field_size_limit(10**7) allows more than {csv.field_size_limit():,} characters"
        )
    if "unexpected end" in complaint:
        return "a quote that is opened here is not closed before the end of the file"
    if "expected after" in complaint:
        return "a quote inside a quoted text must be doubled, or the quote that was opened is not closed"
    return complaint
