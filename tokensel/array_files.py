"""Arrays written from start to end: in memory, or in files of a folder that are then mapped into memory."""

import io
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np


class CannotKeep(OSError):
    """A folder cannot be written: it is full, may not be written, or is no folder."""


@contextmanager
def on_disk():
    """Tell what fails because a folder cannot be written from what fails because texts cannot be read."""
    try:
        yield
    except CannotKeep:
        raise
    except OSError as error:
        raise CannotKeep(error.errno, error.strerror or str(error), error.filename) from error


def new_file(folder, name, stack):
    """Open a new file of a folder, to be closed with the stack: in memory if the folder is None.

    Without a name it is gone once it is closed.
    """
    if folder is None:
        return io.BytesIO()
    with on_disk():
        file = tempfile.TemporaryFile(dir=folder) if name is None else Path(folder, name).open("xb")  # noqa: SIM115
    stack.callback(_close, file)
    return file


def mapped(path):
    """The array of an .npy file, mapped into memory: what is read of it gives way when memory is short.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "ids.npy"), [3, 1])
    ...     mapped(Path(folder, "ids.npy"))
    array([3, 1])
    """
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


class ArrayFile:
    """An array of a given size, written a piece at a time.

    Parameters
    ----------
    folder : path or None
        Where ``<name>.npy`` is to stand; None for memory.
    name : str
    dtype : dtype
    size : int
        How many numbers there will be.
    stack : contextlib.ExitStack
        Closes the file.

    Raises
    ------
    CannotKeep
        If the folder cannot be written.

    Examples
    --------
    >>> from contextlib import ExitStack
    >>> with ExitStack() as stack:
    ...     ids = ArrayFile(None, "ids", np.int32, 3, stack)
    ...     ids.append([3, 1])
    ...     ids.append([2])
    ...     ids.finished()
    array([3, 1, 2], dtype=int32)
    """

    def __init__(self, folder, name, dtype, size, stack):
        self.dtype = np.dtype(dtype)
        self.path = None if folder is None else Path(folder, f"{name}.npy")
        self.file = new_file(folder, f"{name}.npy", stack)
        if folder is not None:
            header = {"descr": self.dtype.str, "fortran_order": False, "shape": (size,)}
            with on_disk():
                np.lib.format.write_array_header_1_0(self.file, header)

    def append(self, numbers):
        """Write the next numbers."""
        with on_disk():
            self.file.write(np.ascontiguousarray(numbers, dtype=self.dtype).data)

    def finished(self):
        """The whole array, in memory or mapped from its file."""
        if self.path is None:
            return np.frombuffer(self.file.getbuffer(), dtype=self.dtype)
        _close(self.file)
        with on_disk():
            return mapped(self.path)


def _close(file):
    with on_disk():  # what is still buffered may find no room
        file.close()
