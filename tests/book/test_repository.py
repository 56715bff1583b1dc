"""What stands in several places agrees: the repository's address, requirements, README and code."""

import contextlib
import io
import os
import re
import subprocess
import tempfile
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from browsing import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
ADDRESS = CONFIG["repository"]["url"]
CONDA_NAMES = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}


def tracked():
    """Text files that git tracks: path to text."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = {}
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and not name.endswith((".png", ".ico")):
            files[name] = (ROOT / name).read_text(encoding="utf-8")
    assert files
    return files


def test_the_repository_has_one_address():
    lines = [
        line
        for line in (ROOT / "_config.yml").read_text(encoding="utf-8").splitlines()
        if "tokensel/" in line
    ]
    assert [line for line in lines if ADDRESS in line] == [f"  url: {ADDRESS}"]
    for name, text in tracked().items():
        for found in re.findall(
            r"https?://github\.com/[\w.-]+/tokensel\b|https?://[\w-]+\.github\.io/\S*", text
        ):
            assert found == ADDRESS, name
    assert PROJECT["urls"]["Repository"] == ADDRESS
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["repository-code"] == ADDRESS


def test_no_paths_of_a_machine_and_no_registries():
    homes = r"(?<![\w.~-])/(?:home|root|Users|mnt|scratch)/\w"
    # Every machine has its root and its folder for temporary files, so these two tell nothing of this one.
    common = {Path(ROOT.anchor), Path(tempfile.gettempdir()).resolve()}
    here = "|".join(re.escape(f"{path}/") for path in (ROOT, ROOT.parent) if path not in common)
    registries = r"py[p]i\.org|python[h]osted|npm[j]s|deb\.deb[i]an"
    for name, text in tracked().items():
        assert re.findall(rf"{homes}|(?<![\w.-])(?:{here})|{registries}", text) == [], name


def requirements(*texts):
    return {canonicalize_name(r.name): r for r in map(Requirement, texts)}


def test_lock_holds_exact_versions_that_satisfy_the_floors():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "exact, no local suffix, no hashes"
    locked = {canonicalize_name(line.split("==")[0]): Version(line.split("==")[1]) for line in lines}
    asked = PROJECT["dependencies"] + list(chain.from_iterable(PROJECT["optional-dependencies"].values()))
    for requirement in map(Requirement, asked):
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_dependencies_have_floors_and_no_caps():
    """A cap breaks Colab. ipywidgets has one: its next major version may change the sliders."""
    for requirement in map(Requirement, PROJECT["dependencies"]):
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators == ({">=", "<"} if requirement.name == "ipywidgets" else {">="}), requirement


def test_binder_environment_agrees():
    *conda, last = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert last == {"pip": ["-e .[text]"]}
    python = next(line for line in conda if line.startswith("python="))
    assert Version(python.removeprefix("python=")) >= Version(PROJECT["requires-python"].removeprefix(">="))
    others = [line for line in conda if line not in {python, "pip"}]
    renamed = [re.sub(r"^[\w-]+", lambda m: CONDA_NAMES.get(m[0], m[0]), line) for line in others]
    assert requirements(*renamed) == requirements(*PROJECT["dependencies"])


def test_readme_is_short_and_its_code_does_what_it_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 120
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert blocks
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "README.md", "exec"), {})
        promised = re.findall(r"^print\(.*\)  # (.+)$", block, re.M)
        assert promised
        assert printed.getvalue().splitlines() == promised


def test_readme_shows_a_page_and_links_to_files_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", text)
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).stat().st_size <= 200_000
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / target).is_file(), target


@pytest.mark.parametrize(
    "target", ["book", "test", "serve", "lint", "notebooks", "launch", "live", "bench", "shots", "clean"]
)
def test_make_has_the_targets_it_lists(target):
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", text, re.M)
    assert re.search(rf'@echo "make {target} ', text)


def test_continuous_integration_runs_the_same_script():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.findall(r"^make (\w+)$", script.read_text(encoding="utf-8"), re.M) == ["lint", "book", "test"]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))
    assert {"run": ".ci/run"} in workflow["jobs"]["check"]["steps"]
