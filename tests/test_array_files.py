"""Arrays written in pieces, against NumPy's own reader."""

from contextlib import ExitStack
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokensel.array_files import ArrayFile, CannotKeep, mapped, new_file, on_disk

pieces = st.lists(st.lists(st.integers(-100, 100), max_size=5), max_size=5)


@given(pieces, st.sampled_from([np.int64, np.int32, np.int8]), st.booleans())
@settings(deadline=None)
def test_pieces_become_one_array(tmp_path_factory, pieces, dtype, in_memory):
    expected = np.array(list(chain(*pieces)), dtype=dtype)
    folder = None if in_memory else tmp_path_factory.mktemp("arrays")
    with ExitStack() as stack:
        array = ArrayFile(folder, "numbers", dtype, len(expected), stack)
        for piece in pieces:
            array.append(piece)
        found = array.finished()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
    if folder:
        np.testing.assert_array_equal(np.load(folder / "numbers.npy", allow_pickle=False), expected)


def test_what_is_mapped_cannot_be_written(tmp_path):
    np.save(tmp_path / "numbers.npy", np.arange(3))
    array = mapped(tmp_path / "numbers.npy")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"allow_pickle=False|Python objects"):
        mapped(tmp_path / "objects.npy")


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "numbers.npy").write_bytes(b"mine")
    with ExitStack() as stack, pytest.raises(CannotKeep, match="File exists"):
        ArrayFile(tmp_path, "numbers", np.int64, 1, stack)
    assert (tmp_path / "numbers.npy").read_bytes() == b"mine"


def test_a_file_without_name_leaves_none(tmp_path):
    with ExitStack() as stack:
        file = new_file(tmp_path, None, stack)
        file.write(b"passing")
        file.seek(0)
        assert file.read() == b"passing"
    assert file.closed
    assert list(tmp_path.iterdir()) == []


def test_only_errors_of_the_disk_are_the_disk_s(tmp_path):
    with pytest.raises(CannotKeep, match=r"No such file or directory: .*missing") as caught, on_disk():
        (tmp_path / "missing").read_bytes()
    with pytest.raises(CannotKeep) as again, on_disk():
        raise caught.value
    assert again.value is caught.value
    with pytest.raises(KeyError), on_disk():
        raise KeyError("mine")
