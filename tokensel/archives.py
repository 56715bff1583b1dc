"""Archives are read member by member, and downloads kept only when complete: nothing is unpacked."""

import csv
import gzip
import tarfile
import zlib
from contextlib import contextmanager
from pathlib import PurePosixPath

from tokensel.progress import progress

# Bytes that are read at a time, at most: sizes that an archive claims may be lies.
_AT_ONCE = 2**26
_DAMAGE = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, csv.Error, UnicodeDecodeError)


class DatasetNotFound(FileNotFoundError):
    """The data are not on this machine and could not be downloaded; the message says how to get them.

    Examples
    --------
    That of :func:`tokensel.datasets.yelp`.
    """


@contextmanager
def damage_named(path):
    """Name the archive in the error when it is damaged, or not what it should be."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged, or not the official archive: {error}") from error


def members(path):
    """Names and open files of what an archive (``.tar.gz``) holds, in its order.

    Read each file before you ask for the next. Read to the end, where gzip checks the whole.

    Raises
    ------
    ValueError
        If the archive holds a link, a device, or a path that leads outside.
    """
    with _Unpacked(path) as unpacked, tarfile.open(path, "r:", unpacked) as archive:
        while (member := _next(archive)) is not None:
            archive.members.clear()  # it would keep a record of each of 100,000 files
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
                raise ValueError(
                    f"{path} holds {member.name!r}, a link or a path that leads outside: "
                    "it is not the official archive"
                )
            if member.isfile():
                yield str(name), archive.extractfile(member)
        while unpacked.read(_AT_ONCE):  # what follows the last file: at its end gzip checks all that was read
            pass


def _next(archive):
    """The next member of an archive, whatever its header claims."""
    try:
        return archive.next()
    except (ValueError, OverflowError) as error:
        raise tarfile.ReadError(f"a header claims what cannot be: {error}") from error


class _Unpacked(gzip.GzipFile):
    """What a gzip file holds; nobody can ask for more of it at once than fits into memory."""

    def read(self, size=-1):
        if not 0 <= size <= _AT_ONCE:
            raise tarfile.ReadError(f"it claims a file or a header of {size:,} bytes")
        return super().read(size)


def download(address, md5, archive, what, ways, allowed=True):
    """Download an archive; where that fails, leave no file and no folder behind.

    Parameters
    ----------
    address, md5 : str
        Where it is published, with which checksum.
    archive : Path
        Where it is to be. It is kept only if its checksum is the published one.
    what, ways : str
        What it holds, and the other ways to get it, for the message.
    allowed : bool
        False downloads nothing.

    Raises
    ------
    DatasetNotFound
        If the download fails or is not allowed.
    ValueError
        If the checksum is another one.
    """
    import pooch

    if not allowed:
        raise DatasetNotFound(f"{what} are not in {archive.parent}, and download_if_missing=False. {ways}")
    created = [folder for folder in archive.parents if not folder.exists()]
    try:
        with progress(1, description=what, unit="B") as bar:
            pooch.retrieve(
                address,
                known_hash=f"md5:{md5}",
                fname=archive.name,
                path=archive.parent,
                downloader=pooch.HTTPDownloader(progressbar=bar),
            )
    except OSError as error:
        raise DatasetNotFound(
            f"{what} are not in {archive.parent}, and the download failed ({error}). {ways}"
        ) from error
    finally:
        for folder in created:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
