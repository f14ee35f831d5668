"""A real browser, for tests of the page and for its picture."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.commands import PATIENCE
from playwright.sync_api import Browser, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_VARIABLE = "ANYDEPTH_BROWSER"
AXE_VARIABLE = "ANYDEPTH_AXE"
AXE_VERSION = "4.14.0"


def find_browser() -> str | None:
    """The program of a Chromium on this machine: the one that ANYDEPTH_BROWSER names, or the first
    on the path."""
    named = os.environ.get(BROWSER_VARIABLE)
    return named or next((found for name in BROWSERS if (found := shutil.which(name))), None)


def axe_script() -> str:
    """The source of axe-core: from the folder that ANYDEPTH_AXE names, else installed by npm into a
    folder that later runs find again."""
    folder = Path(os.environ.get(AXE_VARIABLE) or Path(tempfile.gettempdir()) / f"anydepth-axe-{AXE_VERSION}")
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"axe-core@{AXE_VERSION}"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return script.read_text(encoding="utf-8")


@contextmanager
def browsing(program: str) -> Iterator[Browser]:
    """A browser without a window. It runs without its sandbox, which needs rights that containers
    lack; it sees only pages of this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
