"""Which code made the measurements."""

import subprocess
from pathlib import Path

import anydepth


def revision() -> str | None:
    """The commit that the package is at, with a plus where files differ from it; None where it was
    not taken from a repository."""
    root = Path(anydepth.__file__).parent.parent
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "anydepth")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()
