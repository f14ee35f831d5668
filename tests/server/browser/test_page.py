"""The page in a real browser: typing, depth, marks, languages, keyboard, sizes and refusals."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from server.browser.conftest import OpenedPage, wished

pytestmark = pytest.mark.soak
Open = Callable[..., OpenedPage]
TEXT = "katze hund gern läuft"
MANY_BLOCKS = 12
WIDTHS = {"phone": {"width": 360, "height": 740}, "desktop": {"width": 1400, "height": 860}}


def all_words(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [word for sentence in answer["depth"]["sentences"] for word in sentence["words"]]


def test_a_text_is_translated_as_one_types_and_each_word_shows_its_exit(open_page: Open) -> None:
    opened = open_page()
    answer = opened.type_text(TEXT)
    assert opened.words() == [word["text"] for word in all_words(answer)]
    assert len(opened.words()) > 1, "else this shows little"
    assert opened.page.locator("#alternatives li").all_text_contents() == answer["alternatives"]
    assert answer["alternatives"] != []
    exits = "boxes => boxes.map(box => Number(box.dataset.exit))"
    boxes = opened.page.locator("#words .word")
    assert boxes.evaluate_all(exits) == [word["exit"] for word in all_words(answer)]
    deepest = [word["exit"] for word in all_words(opened.move_slider(len(opened.depths) - 1))]
    assert boxes.evaluate_all(exits) == deepest
    assert min(deepest) > 1, "else this shows little"


def test_line_breaks_and_spaces_of_the_translation_stay(open_page: Open) -> None:
    opened = open_page()
    answer = opened.type_text("katze hund\n\n  gern\nläuft")
    assert answer["translatedText"].count("\n") == 3
    assert opened.page.locator("#words").text_content() == answer["translatedText"]
    tops = "boxes => boxes.map(box => box.getBoundingClientRect().top)"
    assert len(set(opened.page.locator("#words .word").evaluate_all(tops))) == 3


def test_a_pause_of_typing_asks_once_for_each_depth(open_page: Open) -> None:
    opened, asked = open_page(), list[dict[str, Any]]()
    opened.page.on("request", lambda request: asked.append(wished(request)) if wished(request) else None)
    opened.page.locator("#text").press_sequentially(TEXT, delay=5)
    opened.wait_until_compared()
    policies = [opened.depths[opened.stop]["policy"], opened.depths[-1]["policy"]]
    assert [(wish["q"], wish["policy"]) for wish in asked] == [(TEXT, policy) for policy in policies]


def test_an_answer_to_an_earlier_text_is_dropped(open_page: Open) -> None:
    opened, held = open_page(), list[Route]()
    opened.page.route("**/translate", lambda route: held.append(route) if not held else route.continue_())
    opened.page.fill("#text", "hund")
    while not held:
        opened.page.wait_for_timeout(20)
    opened.page.fill("#text", TEXT)
    opened.wait_until_compared()
    before = opened.words()
    held[0].fulfill(json={"translatedText": "late", "depth": {"blocks": 3, "sentences": []}})
    opened.page.wait_for_timeout(300)
    assert opened.words() == before
    assert "late" not in opened.page.inner_text("main")


def test_every_stop_of_the_slider_translates_at_its_depth_and_tells_the_cost(open_page: Open) -> None:
    opened = open_page()
    opened.type_text(TEXT)
    slider = opened.page.locator("#depth")
    assert slider.get_attribute("max") == str(len(opened.depths) - 1)
    assert len(opened.depths) > 2, "else this shows little"
    for stop in sorted(range(len(opened.depths)), key=lambda stop: (stop == opened.stop, stop)):
        answer = opened.move_slider(stop)["depth"]
        costs = opened.page.locator("#costs dd").all_text_contents()
        assert costs[0] == f"{answer['average_exit']:.1f} of {answer['blocks']}"
        assert costs[1] == f"{answer['flops_share']:.0%} of full depth"
        assert costs[2].startswith(f"{answer['milliseconds']:.1f} ms, full depth ")
        assert f"{stop + 1} of {len(opened.depths)}" in (slider.get_attribute("aria-valuetext") or "")


def test_moving_the_slider_does_not_ask_full_depth_again(open_page: Open) -> None:
    opened, asked = open_page(), list[str]()
    opened.type_text(TEXT)
    opened.page.on("request", lambda request: asked.append(wished(request).get("policy", "")))
    first = 0 if opened.stop else 1
    opened.move_slider(first)
    assert asked == [opened.depths[first]["policy"]]


def test_words_that_differ_from_full_depth_are_marked_without_colour(open_page: Open) -> None:
    opened = open_page()
    full = opened.depths[-1]["policy"]

    def alter(wish: dict[str, Any], answer: dict[str, Any]) -> None:
        """Full depth replaces a word, adds one and leaves one out."""
        texts = ["one", "other", "three", "more", "four"] if wish["policy"] == full else chosen
        (sentence,) = answer["depth"]["sentences"]
        sentence["words"] = [sentence["words"][0] | {"text": text} for text in texts]
        answer["translatedText"] = sentence["text"] = " ".join(texts)

    chosen = ["one", "two", "three", "four", "five"]
    opened.alter_answers(alter)
    opened.type_text(TEXT)
    assert opened.words() == chosen
    marked, card = opened.page.locator("#words .differs"), opened.page.locator("#card")
    assert marked.all_text_contents() == ["two", "five"]
    style = "boxes => boxes.map(box => getComputedStyle(box.querySelector('.letters')).textDecorationStyle)"
    assert marked.evaluate_all(style) == ["wavy", "wavy"]
    assert opened.page.locator("#words").text_content() == "one two three + four five"
    expect(opened.page.locator("#saving")).to_contain_text("; 3 words differ")
    expect(opened.page.locator("#legend")).to_contain_text("differs at full depth")
    expect(opened.page.locator("#full-text")).to_have_text("one other three more four")
    marked.first.focus()
    expect(card).to_contain_text("Full depth says “other”.")
    marked.last.focus()
    expect(card).to_contain_text("Full depth leaves this out.")
    opened.page.keyboard.press("ArrowLeft")
    opened.page.keyboard.press("ArrowLeft")
    expect(card).to_have_text("Full depth adds “more”.")


def longest_common(ours: list[str], theirs: list[str]) -> int:
    """The length of the longest common subsequence, by the plain recursion over rows."""
    row = [0] * (len(theirs) + 1)
    for word in ours:
        above = row.copy()
        for j, other in enumerate(theirs):
            row[j + 1] = above[j] + 1 if word == other else max(above[j + 1], row[j])
    return row[-1]


def test_the_changes_lead_to_full_depth_and_keep_as_many_words_as_can_be(open_page: Open) -> None:
    page, draw = open_page().page, random.Random(1)
    pairs = [[draw.choices("abcd", k=draw.randrange(9)) for _ in range(2)] for _ in range(400)]
    all_changes = page.evaluate(
        "pairs => import('./difference.js').then(({ changes }) => pairs.map((pair) => changes(...pair)))",
        pairs,
    )
    for (ours, theirs), changes in zip(pairs, all_changes, strict=True):
        result = ours.copy()
        for change in reversed(changes):
            result[change["from"] : change["to"]] = change["words"]
        assert result == theirs
        assert len(ours) - sum(change["to"] - change["from"] for change in changes) == longest_common(ours, theirs)


def test_languages_swap_with_the_text_where_the_pair_exists(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    answer = opened.type_text(TEXT)
    with page.expect_response(lambda response: wished(response.request).get("source") == "en"):
        page.click("#swap")
    assert (page.input_value("#source"), page.input_value("#target")) == ("en", "de")
    assert page.input_value("#text") == answer["translatedText"]


def test_a_swap_without_a_pair_is_disabled_and_says_why(open_page: Open) -> None:
    page = open_page().page
    page.select_option("#target", "fr")
    reason = "This server does not translate from French to German."
    expect(page.locator("#swap")).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#swap")).to_have_accessible_description(reason)
    page.locator("#swap").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text(reason)
    assert (page.input_value("#source"), page.input_value("#target")) == ("de", "fr")
    page.select_option("#target", "en")
    expect(page.locator("#swap")).to_have_attribute("aria-disabled", "false")


def test_the_card_of_a_word_has_its_exit_and_its_probability_after_every_block(open_page: Open) -> None:
    opened = open_page()
    words = all_words(opened.type_text(TEXT))
    blocks = round(opened.depths[-1]["average_exit"])
    card = opened.page.locator("#card")
    for index, word in enumerate(words):
        opened.page.locator("#words .word").nth(index).focus()
        expect(card).to_contain_text(f"left after block {word['exit']} of {blocks}")
        assert card.locator("strong").text_content() == word["text"]
        figures = [after for piece in word["pieces"] for after in piece["passed"]]
        assert card.locator(".figure").all_text_contents() == [hundredths(share) for share in figures]
        assert card.locator(".column").count() == blocks * len(word["pieces"])


def hundredths(share: float) -> str:
    return ">99" if 0.995 < share < 1 else str(int(share * 100 + 0.5))


def test_the_card_follows_the_pointer_and_goes_with_escape(open_page: Open) -> None:
    opened = open_page()
    opened.type_text(TEXT)
    card = opened.page.locator("#card")
    opened.page.hover("#words .word >> nth=1")
    expect(card).to_contain_text(opened.words()[1])
    card.hover()
    opened.page.wait_for_timeout(400)
    expect(card).to_be_visible()
    opened.page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    opened.page.hover("#words .word >> nth=0")
    expect(card).to_be_visible()
    opened.page.mouse.move(2, 2)
    expect(card).to_be_hidden()


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(open_page: Open) -> None:
    opened = open_page()
    opened.type_text(TEXT)
    page = opened.page
    active = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
    page.locator("#theme").focus()
    order = []
    for _ in range(9):
        order.append(page.evaluate(active))
        page.keyboard.press("Tab")
    assert order[:5] == ["theme", "source", "swap", "target", "text"]
    assert order[5].startswith("word")
    assert order[6:9] == ["copy", "depth", "SUMMARY"]
    page.locator("#words .word").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == opened.words()[1]
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent") == opened.words()[-1]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == opened.words()[-1]
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.textContent") == opened.words()[0]


@pytest.mark.parametrize("size", WIDTHS.values(), ids=WIDTHS)
def test_nothing_reaches_beyond_the_sides_of_the_window(open_page: Open, size: dict[str, int]) -> None:
    opened = open_page(viewport=size)
    assert overflow(opened.page) == 0
    opened.type_text("\n".join([TEXT, "katze" * 40, " ".join([TEXT] * 6)]))
    assert overflow(opened.page) == 0
    for index in (0, -1):
        opened.page.locator("#words .word").nth(index).focus()
        box = opened.page.locator("#card").bounding_box()
        assert box is not None
        assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"]
        assert overflow(opened.page) == 0


def test_a_model_of_many_blocks_fits_on_a_phone(open_page: Open) -> None:
    opened = open_page(viewport=WIDTHS["phone"])

    def deepen(wish: dict[str, Any], answer: dict[str, Any]) -> None:
        answer["depth"]["blocks"] = MANY_BLOCKS
        for word in all_words(answer):
            piece = word["pieces"][0] | {"exit": MANY_BLOCKS, "passed": [0.123] * MANY_BLOCKS}
            word.update(exit=MANY_BLOCKS, pieces=[piece] * 3)

    opened.alter_answers(deepen)
    opened.type_text(TEXT)
    opened.page.locator("#words .word").first.focus()
    card = opened.page.locator("#card")
    expect(card.locator(".figure")).to_have_count(3 * MANY_BLOCKS)
    assert card.evaluate("card => card.scrollWidth - card.clientWidth") == 0
    assert overflow(opened.page) == 0


def test_the_page_is_as_tall_as_its_text_needs_and_no_taller_afterwards(open_page: Open) -> None:
    opened = open_page()
    height = "document.documentElement.scrollHeight"
    opened.type_text("hund")
    short = opened.page.evaluate(height)
    opened.type_text("\n".join([TEXT] * 40))
    text = opened.page.locator("#text")
    assert opened.page.evaluate(height) > 2 * short
    assert text.evaluate("field => field.scrollHeight - field.clientHeight") == 0
    opened.type_text("hund")
    assert opened.page.evaluate(height) == short


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_copy_gives_the_translation_as_it_is(open_page: Open) -> None:
    opened = open_page(permissions=["clipboard-read", "clipboard-write"])
    answer = opened.type_text("katze hund\ngern")
    opened.page.click("#copy")
    expect(opened.page.locator("#copy")).to_have_text("Copied")
    assert opened.page.evaluate("navigator.clipboard.readText()") == answer["translatedText"]


def test_a_busy_server_is_asked_again_after_the_time_it_names(open_page: Open) -> None:
    opened, refused = open_page(), list[float]()

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(time.monotonic())
            route.fulfill(status=429, json={"error": "Slowdown: too many requests"}, headers={"Retry-After": "2"})

    opened.page.route("**/translate", refuse_once)
    opened.page.fill("#text", TEXT)
    expect(opened.page.locator("#notice")).to_contain_text("Slowdown: too many requests. Trying again in 2 s.")
    opened.wait_until_compared()
    assert time.monotonic() - refused[0] >= 2
    expect(opened.page.locator("#notice")).to_be_hidden()


def test_a_key_is_asked_for_only_by_a_server_that_wants_one(open_page: Open) -> None:
    opened = open_page()
    form = opened.page.locator("#key-form")
    expect(form).to_be_hidden()

    def want_key(route: Route) -> None:
        if wished(route.request).get("api_key") == "right":
            route.continue_()
        else:
            route.fulfill(status=403, json={"error": "Please contact the server operator to get an API key"})

    opened.page.route("**/translate", want_key)
    opened.page.fill("#text", TEXT)
    expect(form).to_be_visible()
    expect(opened.page.locator("#notice")).to_contain_text("API key")
    opened.page.get_by_label("API key").fill("right")
    opened.page.keyboard.press("Enter")
    opened.wait_until_compared()
    expect(form).to_be_hidden()
    assert opened.page.evaluate("Object.keys(localStorage)") == []


def test_a_refused_text_shows_the_servers_sentence_and_no_earlier_translation(open_page: Open) -> None:
    opened = open_page()
    opened.type_text(TEXT)
    opened.page.fill("#text", "katze " * 5_000)
    expect(opened.page.locator("#notice")).to_contain_text("exceeds")
    assert opened.words() == []
    opened.type_text("hund läuft")
    expect(opened.page.locator("#notice")).to_be_hidden()


def test_a_server_that_is_gone_is_told_and_tried_again(open_page: Open) -> None:
    opened = open_page()
    opened.page.route("**/translate", lambda route: route.abort())
    opened.page.fill("#text", TEXT)
    expect(opened.page.locator("#notice")).to_contain_text("The server does not answer.")
    opened.page.unroute("**/translate")
    opened.page.click("#again")
    opened.wait_until_compared()


def test_an_example_fills_an_empty_page(open_page: Open) -> None:
    page = open_page().page
    page.click("#example")
    expect(page.locator("#words .word").first).to_be_visible()
    expect(page.locator("#example")).to_be_hidden()
