"""One server and one browser for all tests of the page; a page whose errors fail its test."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    Response,
    Route,
    expect,
)
from server.browser.browsing import BROWSER_VARIABLE, BROWSERS, axe_script, browsing, find_browser
from server.serving import sample_run, serving

PATIENCE = 20_000  # milliseconds, for a machine that is busy
COMPARED = re.compile("; (the same words|one word differs|[0-9]+ words differ)|This is full depth")


UNTESTED = (
    f"THE PAGE WAS NOT TESTED: no browser here ({', '.join(BROWSERS)}); install Debian's chromium, or name a program "
    f"in {BROWSER_VARIABLE}"
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says why tests were skipped, whatever options pytest has."""
    if any(UNTESTED in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(UNTESTED)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(UNTESTED)
    with browsing(program) as browser:
        yield browser


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of three pairs: German and English both ways, and German to French, one way."""
    folder = tmp_path_factory.mktemp("served")
    runs = [
        sample_run("exits", folder / "first"),
        sample_run("exits", folder / "back", "en", "de"),
        sample_run("aligned", folder / "one-way", "de", "fr"),
    ]
    with serving(*runs, "--requests-per-minute", 0) as server:
        yield server.url


@pytest.fixture(scope="session")
def axe() -> str:
    return axe_script()


class OpenedPage:
    """The page in a browser, used as a reader uses it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.wrong: list[str] = []  # errors of scripts, and what the content policy refused
        page.on("console", self.note_message)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page.goto(address)
        expect(page.locator("#depth")).to_be_enabled()
        self.depths: list[dict[str, Any]] = page.evaluate("fetch('depths?source=de&target=en').then(a => a.json())")

    def note_message(self, message: ConsoleMessage) -> None:
        """Notes an error; that a request was refused is no error, and the page shows it itself."""
        is_told = message.text.startswith("Failed to load resource") and message.location["url"].endswith("/translate")
        if message.type in ("error", "warning") and not is_told:
            self.wrong.append(message.text)

    def type_text(self, text: str) -> dict[str, Any]:
        """The answer to `text` at the slider's stop, once the page has compared it with full depth."""
        with self.answer_at(self.stop, text) as chosen, self.answer_at(len(self.depths) - 1, text):
            self.page.fill("#text", text)
        self.wait_until_compared()
        return dict(chosen.value.json())

    def move_slider(self, stop: int) -> dict[str, Any]:
        """The answer at another stop of the slider."""
        with self.answer_at(stop, self.page.input_value("#text")) as chosen:
            self.page.locator("#depth").fill(str(stop))
        self.wait_until_compared()
        return dict(chosen.value.json())

    @property
    def stop(self) -> int:
        return int(self.page.input_value("#depth"))

    def answer_at(self, stop: int, text: str) -> AbstractContextManager[Any]:
        """Waits for the answer to `text` at a stop."""
        policy = self.depths[stop]["policy"]

        def is_it(response: Response) -> bool:
            wish = wished(response.request)
            return (wish.get("q"), wish.get("policy")) == (text, policy)

        return self.page.expect_response(is_it)

    def wait_until_compared(self) -> None:
        expect(self.page.locator("#words")).not_to_have_attribute("aria-busy", "true")
        expect(self.page.locator("#saving")).to_contain_text(COMPARED)

    def words(self) -> list[str]:
        return self.page.locator("#words .letters").all_text_contents()

    def alter_answers(self, alter: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
        """Has `alter` change each answer, given with its request, before the page gets it."""

        def pass_on(route: Route) -> None:
            response = route.fetch()
            answer = response.json()
            alter(wished(route.request), answer)
            route.fulfill(response=response, json=answer)

        self.page.route("**/translate", pass_on)


def wished(request: Request) -> dict[str, Any]:
    """What a request to translate asked for; nothing where it was another one."""
    return dict(request.post_data_json or {}) if request.url.endswith("/translate") else {}


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., OpenedPage]]:
    """Opens the page in a context of its own, with the settings of a browser's context. Whatever
    goes wrong in it, by a script or against the content policy, fails the test in the end."""
    opened: list[OpenedPage] = []

    def open_one(**settings: Any) -> OpenedPage:
        opened.append(OpenedPage(browser.new_context(**settings).new_page(), address))
        return opened[-1]

    yield open_one
    for each in opened:
        each.page.context.close()
    assert [each.wrong for each in opened if each.wrong] == []
