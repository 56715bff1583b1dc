"""Time and memory, measured so that other work on the machine disturbs them as little as it can."""

import ctypes
import gc
import subprocess
import sys
import time
from pathlib import Path

THREADS = 2


def interleaved(contenders, rounds):
    """Time functions in turn, `rounds` times, and return the sorted seconds of each by its name.

    A slow spell of the machine then falls on all of them; the smallest time of each is the one to compare.
    Every function runs once before the clock starts.
    """
    for function in contenders.values():
        function()
    seconds = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, function in contenders.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: sorted(times) for name, times in seconds.items()}


def median(times):
    """Return the middle of sorted times."""
    return times[len(times) // 2]


def memory_above_standing(function):
    """Return how many bytes of resident memory a call needs beyond what stands before it, on Linux.

    The kernel keeps the peak of a process's resident memory, and resets it to what is resident now when 5 is
    written to ``clear_refs``: unlike ``ru_maxrss``, it then says nothing of what building the inputs took.
    Memory that was freed but is still held by the allocator is given back first, so that it cannot be used
    unnoticed. Call this once, in a process of its own.
    """
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    standing = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    function()
    return _resident("VmHWM") - standing


def in_a_process_of_its_own(module, *arguments):
    """Run a benchmark's module with arguments and return what it prints."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def table(header, rows):
    """Print rows as a Markdown table; columns after the first are numbers."""
    print("| " + " | ".join(header) + " |")
    print("|---" + "|--:" * (len(header) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def _resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))
