"""What selections allow: the words of the obvious loops, for each sentence as if it were alone."""

import numpy as np
import pytest
import torch
from tiny import SOURCE_VOCAB, TARGET_VOCAB
from vocabulary.selections import SENTENCES, encoded, learned, learned_words, standing, table, table_words
from walks import POLICIES, model_for

from anydepth.errors import UsageError
from anydepth.exits.parsing import parse_policy
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import EOS
from anydepth.vocabulary.lexical_table import TableSelection
from anydepth.vocabulary.selection import WordSelection

SELECTIONS: dict[str, WordSelection] = {
    "table:1": TableSelection(table(), 1),
    "table:3": TableSelection(table(), 3),
    "learned:0.4": learned(),
}
WIDE = SearchSettings(beam=2, best=2, length_ratio=1.0, length_offset=4)


def allowed_sets(selection: WordSelection, **padding: int) -> list[set[int]]:
    allowed = selection.allowed(encoded(**padding))
    return [set(row.nonzero()[:, 0].tolist()) for row in allowed[: len(SENTENCES)]]


@pytest.mark.parametrize("per_piece", [1, 3, 100])
def test_a_table_allows_what_the_loop_allows(per_piece: int) -> None:
    selection = TableSelection(table(), per_piece)
    assert allowed_sets(selection) == [table_words(selection, sentence) for sentence in SENTENCES]


@pytest.mark.parametrize("threshold", [0.05, 0.4, 0.9])
def test_a_learned_selection_allows_what_the_loop_allows(threshold: float) -> None:
    selection, source = learned(threshold), encoded()
    expected = [
        learned_words(selection, sentence, source.memory[row, : len(sentence) + 1])
        for row, sentence in enumerate(SENTENCES)
    ]
    assert allowed_sets(selection) == expected
    assert len({len(words) for words in expected}) > 1, "else this shows little"


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_words_of_a_sentence_depend_neither_on_its_neighbours_nor_on_padding(name: str) -> None:
    selection = SELECTIONS[name]
    together = allowed_sets(selection)
    assert allowed_sets(selection, padding=4) == together
    for sentence, words in zip(SENTENCES, together, strict=True):
        assert set(selection.allowed(encoded([sentence]))[0].nonzero()[:, 0].tolist()) == words
        assert EOS in words and len(words) >= selection.smallest
    assert selection.name == name


def test_bytes_come_where_the_sentence_has_one_and_nowhere_else() -> None:
    words = standing()
    allowed = words.allowed(encoded([[5, 16], [5, 6], [18]]))
    assert allowed[:, torch.from_numpy(words.bytes).long()].all(dim=1).tolist() == [True, False, True]
    assert not allowed[1, torch.from_numpy(words.bytes).long()].any()


def test_a_cut_keeps_the_first_words_of_each_piece() -> None:
    whole = table()
    for per_piece in (1, 2, 9):
        cut = whole.cut(per_piece)
        for piece in range(SOURCE_VOCAB):
            row = whole.words[whole.starts[piece] : whole.starts[piece + 1]]
            assert np.array_equal(cut.words[cut.starts[piece] : cut.starts[piece + 1]], row[:per_piece])


@pytest.mark.parametrize("text", POLICIES)
def test_search_among_all_words_is_search_without_a_selection(text: str) -> None:
    model = model_for(text)
    policy = parse_policy(text, model)
    everything = TableSelection(table(always=range(TARGET_VOCAB)), 1)
    selected = SearchSettings(beam=2, best=2, length_ratio=1.0, length_offset=4, words=everything)
    found = search(model, *make_source(SENTENCES), policy, selected)
    for own, other in zip(found, search(model, *make_source(SENTENCES), policy, WIDE), strict=True):
        assert [(each.tokens, each.exits) for each in own] == [(each.tokens, each.exits) for each in other]
        assert [each.score for each in own] == pytest.approx([each.score for each in other], abs=1e-6)
        assert {each.words for each in own} == {TARGET_VOCAB}
        assert {each.words for each in other} == {None}


def test_search_writes_allowed_words_alone_and_tells_how_many_there_were() -> None:
    model = model_for("fixed:3")
    selection = TableSelection(table(always=(EOS, 4, 7, 9, 12)), 2)
    settings = SearchSettings(beam=2, length_ratio=1.0, length_offset=4, words=selection)
    found = search(model, *make_source(SENTENCES), parse_policy("fixed:3", model), settings)
    free = search(model, *make_source(SENTENCES), parse_policy("fixed:3", model), WIDE)
    for sentence, (best,) in zip(SENTENCES, found, strict=True):
        allowed = table_words(selection, sentence)
        assert set(best.tokens) <= allowed
        assert best.words == len(allowed)
    assert [best.tokens for best, *_ in found] != [best.tokens for best, *_ in free], "else this shows little"


def test_a_beam_that_is_too_wide_for_a_selection_is_refused() -> None:
    rule = r"beam = 2 wants 5 words to choose from, but the vocabulary selection table:3 may leave 3; narrow the beam"
    with pytest.raises(UsageError, match=rule):
        SearchSettings(beam=2, words=SELECTIONS["table:3"])
    assert SearchSettings(beam=1, words=SELECTIONS["table:3"]).words is not None
