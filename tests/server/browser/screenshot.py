"""Makes the picture of the page in docs/: `python tests/server/browser/screenshot.py RUN`."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WARM_UP = "Wann haben Sie die Schlösser besichtigt?"  # the first search of a server takes longer than others
SENTENCE = "Die berühmten Verkäuferinnen wissen, dass dieser Bus nach Athen um fünf vor halb sieben abfährt."


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from playwright.sync_api import expect
    from server.browser.browsing import browsing, find_browser
    from server.serving import serving

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "serve_page.png")
    parser.add_argument("--text", default=SENTENCE)
    parser.add_argument("--stop", type=int, help="of the slider, from 0; where the page begins if not given")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--card", type=int, help="the word whose card is shown, from 0")
    options = parser.parse_args()
    program = find_browser()
    if program is None:
        parser.exit(1, "error: no Chromium here; install Debian's chromium, or name a program in ANYDEPTH_BROWSER\n")
    with serving(options.run) as server, browsing(program) as browser:
        page = browser.new_page(
            viewport={"width": options.width, "height": 600}, color_scheme=options.theme, reduced_motion="reduce"
        )
        page.goto(server.url)
        expect(page.locator("#depth")).to_be_enabled()
        if options.stop is not None:
            page.locator("#depth").fill(str(options.stop))
        for text in (WARM_UP, options.text):
            page.fill("#text", text)
            page.wait_for_timeout(2_000)
        expect(page.locator("#costs")).to_contain_text("measured once", timeout=30_000)
        page.locator("#text").blur()
        if options.card is not None:
            page.locator("#words .word").nth(options.card).focus()
        page.screenshot(path=options.to, full_page=True)


if __name__ == "__main__":
    main()
