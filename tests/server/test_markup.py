"""HTML: tags, attributes, scripts and comments come back character by character."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.server.markup import cut_markup


def always(sentence: str) -> bool:
    return True


def shouted(source: str) -> str:
    """The page with every sentence in capitals."""
    cut = cut_markup(source, "de", always)
    return cut.rebuilt([sentence.upper() for sentence in cut.sentences])


PAGES = [
    ("<p>das haus</p>", "<p>DAS HAUS</p>"),
    ("<p class='a b' data-x=\"1 > 0\">das haus</P >", "<p class='a b' data-x=\"1 > 0\">DAS HAUS</P >"),
    ("eins. <br/>zwei", "EINS. <br/>ZWEI"),
    ("<script>var a = '<p>das</p>';</script>das", "<script>var a = '<p>das</p>';</script>DAS"),
    ("<style>p > a { color: red }</style> das", "<style>p > a { color: red }</style> DAS"),
    ("<!-- das haus --><!DOCTYPE html>das", "<!-- das haus --><!DOCTYPE html>DAS"),
    ("a &amp; b &lt; c", "A &amp; B &lt; C"),
    ('<p translate="no">das <b>haus</b></p><p>das</p>', '<p translate="no">das <b>haus</b></p><p>DAS</p>'),
    ("<pre>das\n  haus</pre>das", "<pre>das\n  haus</pre>DAS"),
    ("<p>das <b>rote</b> haus</p>", "<p>DAS <b>ROTE</b> HAUS</p>"),
    ("<p><a href='x'>das</a> rote <i>haus</i></p>", "<p><a href='x'>DAS</a> ROTE <i>HAUS</i></p>"),
    ("<b>das <i>rote</i></b> haus", "<b>DAS <i>ROTE</i></b> HAUS"),
    ("das <img src=x> haus", "DAS <img src=x>HAUS"),
    ("<li>eins<li>zwei", "<li>EINS<li>ZWEI"),
    ("  das\n  haus  ", "  DAS   HAUS  "),
    ("3 < 4", "3 &lt; 4"),
    ("<p>das</p> haus <a href &amp; x", "<p>DAS</p> HAUS &lt;A HREF &amp; X"),
    ("<script>das <p>haus", "<script>das <p>haus"),
    ("", ""),
]


@pytest.mark.parametrize(("source", "expected"), PAGES)
def test_text_is_exchanged_and_markup_is_not(source: str, expected: str) -> None:
    assert shouted(source) == expected


def test_tags_of_a_longer_sentence_keep_their_places_in_proportion() -> None:
    cut = cut_markup("<p>ein <b>rotes</b> haus</p>", "de", always)
    assert cut.sentences == ["ein rotes haus"]
    assert cut.rebuilt(["one two three four five six"]) == "<p>one two <b>three four</b> five six</p>"


def test_an_element_that_held_words_holds_one_however_short_the_translation() -> None:
    cut = cut_markup("eins zwei drei <b>vier</b> fünf sechs", "de", always)
    assert cut.rebuilt(["one two"]) == "one <b>two</b>"
    assert cut.rebuilt(["one"]) == "<b>one</b>"


def test_a_sentence_without_a_translation_keeps_its_tags() -> None:
    cut = cut_markup("<p>ein <b>rotes</b> haus</p>", "de", always)
    assert cut.rebuilt([""]) == "<p><b></b></p>"


TAGS = ["<p>", "</p>", "<b>", "</b>", "<i class='x'>", "</i>", "<br>", "<img src='a.png'>", "<!-- c -->"]
WORDS = ["das", " haus ", "\n", "&amp;", " ist. ", "rot", "&#228;", "<", ">"]


@given(st.lists(st.sampled_from([*TAGS, *WORDS]), max_size=14))
def test_every_tag_comes_back_in_its_order(parts: list[str]) -> None:
    source = "".join(parts)
    tag = re.compile(r"<[/!]?[a-z-][^<>]*>")
    assert tag.findall(shouted(source)) == tag.findall(source)


@given(st.lists(st.sampled_from([*TAGS, *WORDS]), max_size=14))
def test_every_word_comes_back_in_its_order(parts: list[str]) -> None:
    source = "".join(parts)

    def words(page: str) -> str:
        plain = re.sub(r"<[/!]?[a-z-][^<>]*>", "", page)
        return "".join(html.unescape(plain).split()).lower()

    assert words(shouted(source)) == words(source)
