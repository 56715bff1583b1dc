"""Hashes of what is built depends on, so that nothing stale is shown: chapters, the contracts' outcome."""

import hashlib


def content_hash(root, paths):
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def package_files(root):
    inside = (path for suffix in ("py", "csv") for path in (root / "tokensel").rglob(f"*.{suffix}"))
    return [*sorted(inside), root / "requirements.lock"]


def package_hash(root):
    """Hash of what a chapter's outputs depend on besides itself: the package and the pinned versions."""
    return content_hash(root, package_files(root))


def contracts_hash(root):
    """Hash of what the contracts' outcome depends on: package and versions, contracts, pytest's options."""
    contracts = sorted((root / "tests" / "contracts").glob("*.py"))
    return content_hash(root, [*package_files(root), root / "pyproject.toml", *contracts])
