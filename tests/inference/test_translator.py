"""The Translator: order, batches, odd lines, and lines that arrive one by one."""

import json
import threading
from collections.abc import Iterator

import pytest
import torch

from anydepth.config import DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from anydepth.errors import CorpusError, UsageError
from anydepth.exits.policies import FixedExit, Policy, UniformExit
from anydepth.inference.translator import Translation, Translator, word_exits
from anydepth.model.transformer import Transformer
from anydepth.text.tokenizer import train_tokenizer

BLOCKS, MAX_LENGTH, PATIENCE = 4, 24, 30.0
LINES = ["ein haus", "der kleine hund lief durch den garten", "", "danke .", "wo ist das haus ?", " ", "der hund lief", "ja", "ein garten"]
UNIFORM = UniformExit(1, BLOCKS)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(2)
    source = train_tokenizer(LINES, vocab_size=290)
    target = train_tokenizer(["a house", "the small dog ran through the garden", "thank you .", "where is the house ?"], vocab_size=295)
    config = ModelConfig(
        blocks=BLOCKS,
        heads=4,
        encoder=EncoderConfig(blocks=2, dim=20, ffn_dim=28),
        decoder=DecoderConfig(dim=12, ffn_dim=32),
        max_length=MAX_LENGTH,
    )
    model = Transformer(config, source_vocab=source.size, target_vocab=target.size, is_joint=False)
    with torch.no_grad():
        for weights in model.classifiers:
            weights *= 3
            weights[2] *= 3  # so that some sentences finish
    return Translator(model, source, target, DecodingConfig(beam=2))


def words_and_exits(translations: list[Translation]) -> list[tuple[str, list[int]]]:
    return [(translation.text, translation.exits) for translation in translations]


@pytest.mark.parametrize("policy", [None, UNIFORM], ids=["default", "uniform"])
@pytest.mark.parametrize("beam", [1, 3])
def test_translations_keep_the_order_of_lines_whatever_the_batches(translator: Translator, policy: Policy | None, beam: int) -> None:
    one_by_one = [translator.translate([line], policy=policy, beam=beam)[0] for line in LINES]
    for budget in (1, 40, 4096):
        together = translator.translate(LINES, policy=policy, beam=beam, batch_tokens=budget)
        assert words_and_exits(together) == words_and_exits(one_by_one)
    assert len({translation.text for translation in one_by_one}) > 5, "lines must differ, or order means nothing"


def test_an_empty_or_blank_line_has_an_empty_translation_and_does_not_touch_the_model(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.model, "encode", None)
    assert translator.translate(["", "  \t", "\n"]) == [Translation()] * 3
    assert translator.translate([]) == []
    assert (Translation().text, Translation().tokens, Translation().exits, Translation().scores) == ("", [], [], [])


def test_a_line_beyond_the_limit_is_cut_and_flagged(translator: Translator) -> None:
    long = "haus " * MAX_LENGTH
    within = translator.source_tokenizer.decode(translator.source_tokenizer.encode(long)[:MAX_LENGTH])
    cut, whole = translator.translate([long, within])
    assert cut.was_truncated and not whole.was_truncated
    assert (cut.text, cut.exits) == (whole.text, whole.exits)


def test_without_a_policy_every_token_leaves_at_the_last_block(translator: Translator) -> None:
    assert {left for translation in translator.translate(LINES) for left in translation.exits} == {BLOCKS}


def test_every_token_has_a_piece_an_exit_and_a_score(translator: Translator) -> None:
    for translation in translator.translate(LINES, policy=UNIFORM, length_penalty=0.0):
        assert len(translation.tokens) == len(translation.exits) == len(translation.scores)
        assert translation.score == pytest.approx(sum(translation.scores))


def test_alternatives_are_the_best_n_and_begin_with_the_translation_itself(translator: Translator) -> None:
    (plain,) = translator.translate(LINES[:1], beam=4)
    (translation,) = translator.translate(LINES[:1], beam=4, best=3)
    assert plain.alternatives == []
    assert len(translation.alternatives) == 3
    assert translation.alternatives[0] == plain
    assert (translation.text, translation.score) == (plain.text, plain.score)


def test_more_alternatives_than_the_beam_holds_are_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"best = 3 must lie between 1 and beam = 2"):
        translator.translate(LINES, best=3)


def test_a_translation_survives_json(translator: Translator) -> None:
    (translation,) = translator.translate(LINES[:1], best=2)
    restored = json.loads(json.dumps(translation.to_json()))
    alternatives = [Translation(**alternative) for alternative in restored.pop("alternatives")]
    assert Translation(**restored, alternatives=alternatives) == translation


@pytest.mark.parametrize("window", [1, 2, 1024])
def test_a_stream_gives_what_translating_at_once_gives(translator: Translator, window: int) -> None:
    streamed = list(translator.translate_stream(iter(LINES), policy=UNIFORM, window=window))
    assert words_and_exits(streamed) == words_and_exits(translator.translate(LINES, policy=UNIFORM))


def test_a_stream_answers_the_first_line_before_the_second_is_given(translator: Translator) -> None:
    may_go_on, was_asked = threading.Event(), threading.Event()

    def typed() -> Iterator[str]:
        yield LINES[0]
        was_asked.set()
        assert may_go_on.wait(PATIENCE)
        yield LINES[1]

    stream = translator.translate_stream(typed(), policy=FixedExit(1, BLOCKS), beam=1)
    first = next(stream)
    assert was_asked.wait(PATIENCE) and not may_go_on.is_set()
    may_go_on.set()
    assert [first.text, *(translation.text for translation in stream)] == [
        translation.text for translation in translator.translate(LINES[:2], policy=FixedExit(1, BLOCKS), beam=1)
    ]


def test_an_error_in_reading_comes_after_the_lines_before_it(translator: Translator) -> None:
    def broken() -> Iterator[str]:
        yield from LINES[:3]
        raise CorpusError("line 4 is not valid UTF-8")

    answered = []
    with pytest.raises(CorpusError, match=r"line 4 is not valid UTF-8"):
        for translation in translator.translate_stream(broken()):
            answered.append(translation)
    assert words_and_exits(answered) == words_and_exits(translator.translate(LINES[:3]))


def test_a_closed_stream_stops_reading(translator: Translator) -> None:
    has_stopped = threading.Event()

    def endless() -> Iterator[str]:
        try:
            while True:
                yield "ja"
        finally:
            has_stopped.set()

    stream = translator.translate_stream(endless(), beam=1, window=4)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert has_stopped.wait(PATIENCE)


def test_an_empty_stream_ends_at_once(translator: Translator) -> None:
    assert list(translator.translate_stream([])) == []


def test_a_window_without_room_is_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"window = 0 holds no line; set it to 1 or more"):
        next(translator.translate_stream(LINES, window=0))


@pytest.mark.parametrize(
    ("pieces", "exits", "words"),
    [
        (["▁th", "ank", "▁you", "</s>"], [1, 2, 3, 4], [("thank", [1, 2]), ("you", [3]), ("</s>", [4])]),
        (["ab", "▁c"], [1, 2], [("ab", [1]), ("c", [2])]),
        (["▁", "<0xE2>", "<0x82>", "<0xAC>", "▁5"], [1, 2, 3, 4, 2], [("€", [1, 2, 3, 4]), ("5", [2])]),
        (["▁a", "<0xE2>"], [1, 2], [("a\ufffd", [1, 2])]),
        ([], [], []),
    ],
)
def test_words_gather_the_exits_of_their_pieces(pieces: list[str], exits: list[int], words: list[tuple[str, list[int]]]) -> None:
    assert word_exits(pieces, exits) == words


def test_words_of_a_translation_lose_no_exit(translator: Translator) -> None:
    for translation in translator.translate(LINES, policy=UNIFORM):
        gathered = [left for _, exits in word_exits(translation.tokens, translation.exits) for left in exits]
        assert gathered == translation.exits


def test_a_policy_may_be_named(translator: Translator) -> None:
    named = translator.translate(LINES[:2], policy="fixed:2", beam=1)
    assert words_and_exits(named) == words_and_exits(translator.translate(LINES[:2], policy=FixedExit(2, BLOCKS), beam=1))


def test_one_text_instead_of_lines_is_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"takes a list of lines, not one text; write translate\(\[text\]\)"):
        translator.translate("ein haus")
