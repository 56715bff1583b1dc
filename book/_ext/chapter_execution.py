"""Sphinx extension: run the chapters in parallel, and again whenever the package has changed.

myst-nb caches an executed notebook under a key made of the notebook alone, so a change in ``tokensel/``
would leave stale pages. Here the cache's folder is named after a hash of the package and of the installed
versions. Chapters that are not in it are run before Sphinx reads them, one per core; myst-nb then finds all
of them in the cache. A cell that fails ends the build with the name of its chapter and its own.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from nbclient.exceptions import DeadKernelError
from sphinx.errors import ExtensionError
from sphinx.util import logging

import missing_data
from content_hash import package_hash

logger = logging.getLogger(__name__)


def choose_cache(app, config):
    """Point myst-nb to this package's cache; a new folder makes Sphinx read, and run, every chapter again."""
    root = Path(app.srcdir)
    caches = Path(app.outdir).parent / ".jupyter_cache"
    config.nb_execution_cache_path = str(caches / package_hash(root))
    for old in caches.glob("*"):
        if str(old) != config.nb_execution_cache_path:
            shutil.rmtree(old)


def run_chapter(path, timeout):
    """Run one notebook in its folder; return it with its outputs, its seconds and its failure or None."""
    notebook = nbformat.read(path, as_version=4)
    try:
        result = single_nb_execution(notebook, cwd=str(path.parent), timeout=timeout, allow_errors=False)
    except DeadKernelError:
        return notebook, 0.0, f"{path}: the kernel died; was there enough memory?"
    if result.err is None:
        return notebook, result.time, None
    cells = [c for c in notebook.cells if any(o.output_type == "error" for o in c.get("outputs", []))]
    where = f"cell {cells[-1].id!r}" if cells else "no single cell"
    return notebook, result.time, f"{path}: {where} failed\n{result.exc_string}"


def run_chapters(app, env, docnames):
    """Run those chapters about to be read that the cache does not hold, one per core."""
    config = app.config
    cache = get_cache(config.nb_execution_cache_path)
    waiting, without_data = [], missing_data.missing(env)
    for docname in docnames:
        path = Path(env.doc2path(docname))
        if docname in without_data:
            continue
        if path.suffix == ".ipynb":
            try:
                cache.match_cache_notebook(nbformat.read(path, as_version=4))
            except KeyError:
                waiting.append(path)
    if not waiting:
        return

    # The longest notebook first, so that it does not run alone at the end.
    waiting.sort(key=lambda path: path.stat().st_size, reverse=True)
    workers = min(len(waiting), os.cpu_count())
    # One thread a kernel: on a busy machine threads wait for one another at every small operation.
    os.environ["OMP_NUM_THREADS"] = "1"
    failures = []
    with ThreadPoolExecutor(max_workers=workers) as pool:
        runs = {pool.submit(run_chapter, path, config.nb_execution_timeout): path for path in waiting}
        for run in as_completed(runs):  # kept at once: what an interruption finds done stays done
            path, (notebook, seconds, failure) = runs[run], run.result()
            if failure:
                failures.append(failure)
                continue
            bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
            logger.info(f"{path.relative_to(app.srcdir)} ran in {seconds:.0f} s")
    if failures:
        raise ExtensionError("\n\n".join(sorted(failures)))


def setup(app):
    # Kernels inherit this: a page is being built for readers without one (frames for sliders, no bars).
    os.environ["TOKENSEL_STATIC"] = "1"
    app.connect("config-inited", choose_cache)
    app.connect("env-before-read-docs", run_chapters)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
