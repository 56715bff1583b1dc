"""Archives member by member and downloads, against made-up files and a server on this machine."""

import gzip
import hashlib
import http.server
import io
import os
import re
import subprocess
import sys
import tarfile
import textwrap
import threading
import tracemalloc

import pytest

from tokensel.archives import DatasetNotFound, damage_named, download, members

FILES = {"data/b.txt": b"second" * 1000, "data/a.txt": b"", "data/c.txt": "naïve".encode()}


def write_archive(path, files=FILES):
    with tarfile.open(path, "w:gz") as archive:
        folder = tarfile.TarInfo("data")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def read_all(path, names):
    with damage_named(path):
        for name, file in members(path):
            names.append(name)
            file.read()


# Members


def test_members_come_in_the_order_of_the_archive(tmp_path):
    path = write_archive(tmp_path / "data.tar.gz")
    assert {name: file.read() for name, file in members(path)} == FILES
    assert [name for name, _ in members(path)] == list(FILES)  # also if nobody reads them
    assert list(tmp_path.iterdir()) == [path]


def test_names_are_made_plain(tmp_path):
    path = write_archive(tmp_path / "data.tar.gz", {"./data/./a.txt": b"x", "data//b.txt": b"y"})
    assert [name for name, _ in members(path)] == ["data/a.txt", "data/b.txt"]


@pytest.mark.parametrize("size", [10**9, 2**40, 2**63 - 1])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_sizes_that_are_lies_take_no_memory(tmp_path, kind, size):
    claim = tarfile.TarInfo("data/a.txt")
    claim.type, claim.size = kind, size
    path = tmp_path / "data.tar.gz"
    path.write_bytes(gzip.compress(claim.tobuf(tarfile.GNU_FORMAT) + bytes(10_000)))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"data\.tar\.gz is damaged, or not the official archive: .*claims"):
        read_all(path, [])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000


def test_what_follows_the_last_file_is_not_held_in_memory(tmp_path):
    path = write_archive(tmp_path / "data.tar.gz")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(300_000_000), 1))
    tracemalloc.start()
    read_all(path, names := [])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert names == list(FILES)
    assert most < 200_000_000


def test_no_record_of_the_members_is_kept(tmp_path):
    def peak(n):
        path = write_archive(tmp_path / f"{n}.tar.gz", {f"data/{i}.txt": b"x" for i in range(n)})
        tracemalloc.start()
        assert sum(1 for _ in members(path)) == n
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    # tarfile's own record of a member is an object of some 20 attributes: far above 100 bytes.
    assert peak(4_000) - peak(1_000) < 100 * 3_000


@pytest.mark.parametrize("part", ["checksum", "length"])
def test_gzip_checks_the_whole_once_the_last_member_is_read(tmp_path, part):
    path = write_archive(tmp_path / "data.tar.gz")
    content = bytearray(path.read_bytes())
    content[-8 if part == "checksum" else -4] ^= 1
    path.write_bytes(content)
    names = []
    with pytest.raises(ValueError, match=r"data\.tar\.gz is damaged, or not the official archive: "):
        read_all(path, names)
    assert names == list(FILES)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99])
def test_an_archive_cut_anywhere_is_named(tmp_path, share):
    path = write_archive(tmp_path / "data.tar.gz", {f"data/{i}.txt": os.urandom(3000) for i in range(20)})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match=r"data\.tar\.gz is damaged"):
        read_all(path, [])


def test_an_archive_that_is_not_compressed_is_named(tmp_path):
    path = write_archive(tmp_path / "data.tar.gz")
    path.write_bytes(gzip.decompress(path.read_bytes()))
    with pytest.raises(ValueError, match="is damaged, or not the official archive"):
        read_all(path, [])


@pytest.mark.parametrize("error", [KeyError("mine"), OSError("the disk's"), ValueError("the reader's")])
def test_other_errors_are_not_the_archive_s(tmp_path, error):
    with pytest.raises(type(error)) as caught, damage_named(tmp_path / "data.tar.gz"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/x", "./../x"])
def test_paths_that_lead_outside_are_refused(tmp_path, name):
    path = write_archive(tmp_path / "data.tar.gz", {"data/a.txt": b"x", name: b"evil"})
    with pytest.raises(ValueError, match="a link or a path that leads outside"):
        list(members(path))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_what_is_neither_file_nor_folder_is_refused(tmp_path, kind):
    path = tmp_path / "data.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("data/a.txt")
        info.type, info.linkname = kind, "data/b.txt"
        archive.addfile(info)
    with pytest.raises(ValueError, match="it is not the official archive"):
        list(members(path))


# Downloads


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        if self.server.halts:
            self.wfile.write(self.server.body[: len(self.server.body) // 2])
            self.server.released.wait(60)
        else:
            self.wfile.write(self.server.body)

    def log_message(self, *arguments):
        """Keep the test's output free of requests."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.body, server.halts, server.released = os.urandom(200_000), False, threading.Event()
        server.address = f"http://127.0.0.1:{server.server_address[1]}/data.tar.gz"
        server.md5 = hashlib.md5(server.body).hexdigest()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def get(server, archive, **more):
    download(server.address, server.md5, archive, "the data", "Ask for them", **more)


def test_downloads_into_a_folder_that_it_makes(server, tmp_path):
    get(server, tmp_path / "new" / "folder" / "data.tar.gz")
    assert (tmp_path / "new" / "folder" / "data.tar.gz").read_bytes() == server.body


def test_does_not_download_what_is_not_allowed(server, tmp_path):
    with pytest.raises(DatasetNotFound) as caught:
        get(server, tmp_path / "new" / "data.tar.gz", allowed=False)
    assert (
        str(caught.value)
        == f"the data are not in {tmp_path / 'new'}, and download_if_missing=False. Ask for them"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said(server, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DatasetNotFound, match=r"the download failed \(.*\)\. Ask for them"):
        get(server, tmp_path / "file" / "folder" / "data.tar.gz")
    assert (tmp_path / "file").read_text() == "mine"


def process(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(os.name != "posix", reason="asks POSIX for a limit on the size of files")
def test_where_there_is_no_room_nothing_is_left(server, tmp_path):
    running = process(
        """
        import pathlib, resource, sys
        from tokensel.archives import DatasetNotFound, download
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            download(*sys.argv[1:3], pathlib.Path(sys.argv[3]), "the data", "Ask for them")
        except DatasetNotFound as error:
            print(error)
        """,
        server.address,
        server.md5,
        tmp_path / "new" / "data.tar.gz",
    )
    out, err = running.communicate(timeout=60)
    assert re.search(r"the download failed \(\[Errno 27\] File too large\)\. Ask for them", out), err
    assert list(tmp_path.iterdir()) == []


def size(path):
    """Bytes of a file; 0 if it is gone, as one is with which pooch tries whether it can write."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.skipif(os.name != "posix", reason="asks POSIX for a signal that ends a process at once")
def test_a_process_killed_half_way_leaves_no_archive(server, tmp_path):
    server.halts = True
    archive = tmp_path / "data.tar.gz"
    running = process(
        """
        import pathlib, sys
        from tokensel.archives import download
        print("now", flush=True)
        download(*sys.argv[1:3], pathlib.Path(sys.argv[3]), "the data", "Ask for them")
        """,
        server.address,
        server.md5,
        archive,
    )
    with running:
        assert running.stdout.readline() == "now\n"
        while not any(map(size, tmp_path.iterdir())):
            assert running.poll() is None
        running.kill()
    assert not archive.exists()
    server.halts = False
    get(server, archive)
    assert archive.read_bytes() == server.body
