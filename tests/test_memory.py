"""What will not fit is refused before it is made; where nobody knows what fits, nothing is refused."""

import os
import subprocess
import sys

import pytest
import torch

from tokensel import memory


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A made-up kernel: files under proc/ and cgroup/ that the tests write."""
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_address_space", lambda: None)

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    return write


def test_a_refusal_names_what_needs_and_has(kernel):
    kernel("proc/meminfo", "MemTotal:  99 kB\nMemFree:  1 kB\nMemAvailable:    2000 kB\nBuffers: 3 kB\n")
    memory.require(2_048_000, "all there is")
    with pytest.raises(MemoryError) as refusal:
        memory.require(2_048_001, "the counts of 3 sequences", "cpu")
    assert str(refusal.value) == (
        "the counts of 3 sequences: that would need 2.0 MB (2,048,001 bytes) of memory on cpu, "
        "but there are 2.0 MB (2,048,000 bytes)"
    )


def test_nothing_is_refused_where_the_amount_is_unknown(kernel):
    assert memory.available() is None
    memory.require(10**30, "anything")
    memory.require(10**30, "anything", "meta")
    kernel("proc/meminfo", "MemTotal:  99 kB\n")  # Linux before 3.14
    memory.require(10**30, "anything")


@pytest.mark.parametrize(
    ("controllers", "folder", "limit", "usage", "prefix"),
    [
        ("0:", "cgroup", "memory.max", "memory.current", ""),
        ("4:cpu,memory", "cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ],
    ids=["version 2", "version 1"],
)
def test_control_groups_count_with_those_above_them(kernel, controllers, folder, limit, usage, prefix):
    kernel("proc/meminfo", "MemAvailable: 1000000 kB\n")
    kernel("proc/self/cgroup", f"7:freezer:/\n{controllers}:/job/step\n")
    kernel(f"{folder}/job/step/{limit}", "max\n")
    kernel(f"{folder}/job/step/{usage}", "5\n")
    assert memory.available() == 1_024_000_000
    kernel(f"{folder}/job/{limit}", "60000\n")
    kernel(f"{folder}/job/{usage}", "50000\n")
    kernel(f"{folder}/job/memory.stat", f"anon 1\n{prefix}active_file 300\n{prefix}inactive_file 4000\n")
    assert memory.available() == 60_000 - 50_000 + 4_300
    kernel(f"{folder}/{limit}", "100\n")
    kernel(f"{folder}/{usage}", "200\n")  # over its limit, as it may be for a moment
    assert memory.available() == 0


def test_a_group_named_from_outside_the_container_counts_at_the_root(kernel):
    kernel("proc/self/cgroup", "0::/docker/0123abc\n")
    kernel("cgroup/memory.max", "7000\n")
    kernel("cgroup/memory.current", "1000\n")
    assert memory.available() == 6_000


def test_the_cpu_of_this_machine_is_measured():
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux says how much memory is available")
    assert 0 < memory.available() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_an_address_space_is_respected():
    """A process that may map 3 GB more is refused 4 GB, in time to go on."""
    code = """
import resource, os
import numpy as np, torch
from tokensel import memory
mapped = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (mapped + 3 * 10**9, resource.RLIM_INFINITY))
memory.require(10**9, "a third of it")
np.ones(10**9, dtype=np.uint8)
try:
    memory.require(4 * 10**9, "too much")
except MemoryError as error:
    print(error)
try:
    np.ones(4 * 10**9, dtype=np.uint8)
except MemoryError:
    print("and so says NumPy")
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc and RLIMIT_AS")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refusal, numpy_too = done.stdout.splitlines()
    assert refusal.startswith("too much: that would need 4.0 GB (4,000,000,000 bytes) of memory on cpu, but")
    assert numpy_too == "and so says NumPy"


def test_cuda_counts_what_torch_has_put_aside(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1_000, 9_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 200)
    memory.require(1_300, "what fits", "cuda")
    with pytest.raises(MemoryError, match=r"1,301 bytes\) of memory on cuda:1, .* \(1,300 bytes\)"):
        memory.require(1_301, "one more", torch.device("cuda:1"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_is_measured():
    total = torch.cuda.get_device_properties("cuda").total_memory
    assert 0 < memory.available("cuda") <= total
    with pytest.raises(MemoryError, match="of memory on cuda, but there are"):
        memory.require(total + 1, "too much", "cuda")


@pytest.mark.parametrize(("n_bytes", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_the_number_of_bytes_is_one(n_bytes, error):
    with pytest.raises(error, match="n_bytes"):
        memory.require(n_bytes, "something")


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [
        (0, "0 bytes"),
        (1_000, "1.0 kB"),
        (999_999, "1,000.0 kB"),
        (10**21, "1,000.0 EB"),
        (10**22, "10,000.0 EB"),
    ],
)
def test_bytes_are_readable(n_bytes, words):
    assert memory.readable(n_bytes) == words


def test_a_number_of_bytes_beyond_all_floats_is_refused_too():
    with pytest.raises(MemoryError, match="something: that would need 10,000"):
        memory.require(10**400, "something")


@pytest.mark.parametrize("device", ["gpu", "", None, 1.5])
def test_a_device_that_cannot_be_is_named(device):
    with pytest.raises(ValueError, match=f"device {device!r} is none that torch knows"):
        memory.available(device)
