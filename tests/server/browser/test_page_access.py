"""The page for everybody: screen readers, contrast, themes and motion, checked in a real browser."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from server.browser.conftest import OpenedPage
from server.browser.test_page import MANY_BLOCKS, TEXT, WIDTHS

pytestmark = pytest.mark.soak
Open = Callable[..., OpenedPage]
THEMES = ("light", "dark")
READABLE = 4.5  # the contrast that WCAG AA asks of text
SHADES = """blocks => import('./words.js').then(({ shade }) => {
  const box = document.createElement('span');
  box.className = 'word';
  document.getElementById('words').append(box);
  box.style.transition = 'none';
  const drawing = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const colour = (text) => {
    drawing.fillStyle = text;
    drawing.fillRect(0, 0, 1, 1);
    return [...drawing.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const found = Array.from({ length: blocks }, (_, index) => {
    shade(box, index + 1, blocks);
    const style = getComputedStyle(box);
    return [colour(style.backgroundColor), colour(style.color)];
  });
  box.remove();
  return found;
})"""


def violations(page: Page, axe: str) -> list[str]:
    """What axe-core finds wrong with the page as it is."""
    page.evaluate(axe)
    found: dict[str, Any] = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20, "else this shows little"
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(("theme", "size"), list(product(THEMES, WIDTHS)))
def test_axe_finds_nothing_wrong(open_page: Open, axe: str, theme: str, size: str) -> None:
    opened = open_page(color_scheme=theme, viewport=WIDTHS[size], reduced_motion="reduce")
    assert violations(opened.page, axe) == []
    opened.type_text(TEXT)
    assert violations(opened.page, axe) == []
    opened.page.locator("#words .word").first.focus()
    expect(opened.page.locator("#card")).to_be_visible()
    assert violations(opened.page, axe) == []


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_wrong_with_a_refusal(open_page: Open, axe: str, theme: str) -> None:
    opened = open_page(color_scheme=theme)

    def refuse(route: Route) -> None:
        route.fulfill(status=403, json={"error": "Invalid API key"})

    opened.page.route("**/translate", refuse)
    opened.page.fill("#text", TEXT)
    expect(opened.page.locator("#key-form")).to_be_visible()
    assert violations(opened.page, axe) == []


def luminance(colour: list[int]) -> float:
    """The relative luminance of a colour, as WCAG defines it."""
    shares = [value / 255 for value in colour]
    red, green, blue = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", THEMES)
def test_words_are_readable_on_every_shade_and_deeper_is_always_stronger(open_page: Open, theme: str) -> None:
    opened = open_page(color_scheme=theme)
    opened.type_text(TEXT)
    shades = [(luminance(box), luminance(ink)) for box, ink in opened.page.evaluate(SHADES, MANY_BLOCKS)]
    for box, ink in shades:
        assert (max(box, ink) + 0.05) / (min(box, ink) + 0.05) >= READABLE
    boxes = [box for box, _ in shades]
    assert boxes == sorted(boxes, reverse=theme == "light")
    assert len(set(boxes)) == MANY_BLOCKS


def test_a_screen_reader_hears_the_translation_once_the_text_rests(open_page: Open) -> None:
    opened = open_page()
    spoken = opened.page.locator("#spoken")
    expect(spoken).to_have_role("status")
    answer = opened.type_text(TEXT)
    expect(spoken).to_have_text(answer["translatedText"])
    assert spoken.get_attribute("lang") == "en"
    first = opened.page.locator("#words .word").first
    word = answer["depth"]["sentences"][0]["words"][0]
    assert f"{word['text']}: left after block {word['exit']} of" in (first.get_attribute("aria-label") or "")


def test_the_theme_of_the_system_holds_until_another_is_chosen(open_page: Open) -> None:
    page = open_page(color_scheme="dark").page
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.click("#theme")
    light = page.evaluate(background)
    assert light != dark
    page.reload()
    assert page.evaluate(background) == light
    expect(page.locator("#theme")).to_have_text("Dark theme")
    assert page.evaluate("Object.entries(localStorage)") == [["theme", "light"]]
    assert page.context.cookies() == []
    page.click("#theme")
    assert page.evaluate(background) == dark


def test_nothing_moves_for_those_who_ask_for_rest(open_page: Open) -> None:
    opened = open_page(reduced_motion="reduce")
    opened.type_text(TEXT)
    moving = (
        "[...document.querySelectorAll('*')].filter(each => getComputedStyle(each).transitionDuration !== '0s').length"
    )
    assert opened.page.evaluate(moving) == 0
    opened.page.emulate_media(reduced_motion="no-preference")
    assert opened.page.evaluate(moving) > 0, "else this shows little"


def test_the_page_asks_only_its_own_server(open_page: Open, address: str) -> None:
    opened = open_page()
    asked = list[str]()
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.reload()
    opened.type_text(TEXT)
    assert len(asked) > 8, "else this shows little"
    assert [url for url in asked if not url.startswith(f"{address}/")] == []


def test_a_script_in_the_page_itself_is_refused_and_noticed(open_page: Open) -> None:
    opened = open_page()
    opened.page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'document.title = "refuse me"';
          document.head.append(script);
        }"""
    )
    assert opened.page.title() != "refuse me"
    assert ["Content Security Policy" in text for text in opened.wrong] == [True]
    opened.wrong.clear()
