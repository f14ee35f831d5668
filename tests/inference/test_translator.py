"""The Translator: order, batches, odd lines, and lines that arrive one by one."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from anydepth.config.model_settings import DecoderConfig, EncoderConfig, ModelConfig
from anydepth.config.schema import Config, DecodingConfig
from anydepth.errors import CorpusError, RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import FixedExit, Policy, UniformExit
from anydepth.inference.translator import Translation, Translator, check_lines, word_exits
from anydepth.runs.operating_points import OperatingPoint, PointSet, Wish, save_points
from anydepth.runs.run import Run
from anydepth.text.tokenizer import train_tokenizer

BLOCKS, MAX_LENGTH, PATIENCE = 4, 24, 30.0
LINES = [
    "ein haus",
    "der kleine hund lief durch den garten",
    "",
    "danke .",
    "wo ist das haus ?",
    " ",
    "der hund lief",
    "ja",
    "ein garten",
]
UNIFORM = UniformExit(1, BLOCKS)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(2)
    source = train_tokenizer(LINES, vocab_size=290)
    target = train_tokenizer(
        ["a house", "the small dog ran through the garden", "thank you .", "where is the house ?"], vocab_size=295
    )
    config = ModelConfig(
        blocks=BLOCKS,
        heads=4,
        encoder=EncoderConfig(blocks=2, dim=20, ffn_dim=28),
        decoder=DecoderConfig(dim=12, ffn_dim=32),
        max_length=MAX_LENGTH,
    )
    model = AdaptiveTransformer(
        Config(model=config), source_vocab=source.size, target_vocab=target.size, is_joint=False
    )
    with torch.no_grad():
        for weights in model.classifiers:
            weights *= 3
            weights[2] *= 3  # so that some sentences finish
    return Translator(model, source, target, DecodingConfig(beam=2))


def words_and_exits(translations: list[Translation]) -> list[tuple[str, list[int]]]:
    return [(translation.text, translation.exits) for translation in translations]


@pytest.mark.parametrize("policy", [None, UNIFORM], ids=["default", "uniform"])
@pytest.mark.parametrize("beam", [1, 3])
def test_translations_keep_the_order_of_lines_whatever_the_batches(
    translator: Translator, policy: Policy | None, beam: int
) -> None:
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
    assert cut.source_length == whole.source_length == MAX_LENGTH + 1


def test_the_length_of_a_source_counts_the_tokens_that_were_read_and_the_end(translator: Translator) -> None:
    translations = translator.translate(LINES, beam=1)
    lengths = [
        min(len(translator.source_tokenizer.encode(line)), MAX_LENGTH) + 1 if line.strip() else 0 for line in LINES
    ]
    assert [translation.source_length for translation in translations] == lengths
    assert len(set(lengths)) > 5
    (translation,) = translator.translate(LINES[:1], best=2)
    assert {alternative.source_length for alternative in translation.alternatives} == {lengths[0]}


def test_an_empty_policy_is_not_full_depth(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"^the policy '' is empty; name one of"):
        translator.policy("")
    with pytest.raises(UsageError, match=r"^the policy '' is empty"):
        translator.translate(LINES[:1], policy="")


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
def test_words_gather_the_exits_of_their_pieces(
    pieces: list[str], exits: list[int], words: list[tuple[str, list[int]]]
) -> None:
    assert word_exits(pieces, exits) == words


def test_words_of_a_translation_lose_no_exit(translator: Translator) -> None:
    for translation in translator.translate(LINES, policy=UNIFORM):
        gathered = [left for _, exits in word_exits(translation.tokens, translation.exits) for left in exits]
        assert gathered == translation.exits


def test_a_policy_may_be_named(translator: Translator) -> None:
    named = translator.translate(LINES[:2], policy="fixed:2", beam=1)
    assert words_and_exits(named) == words_and_exits(
        translator.translate(LINES[:2], policy=FixedExit(2, BLOCKS), beam=1)
    )


def test_one_text_instead_of_lines_is_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"takes a list of lines, not one text; write translate\(\[text\]\)"):
        translator.translate("ein haus")


def points(*measured: tuple[str, float, float, float], policy: str) -> PointSet:
    return PointSet(
        policy, "replay", 9, 1, 2, 1.0, "valid", "12-34", 5, 30.0, tuple(OperatingPoint(*each) for each in measured)
    )


@pytest.fixture
def tuned(translator: Translator, tmp_path: Path) -> Translator:
    """The translator of a run with points of two policies."""
    run = Run(tmp_path)
    run.weights_file.write_bytes(b"weights")
    run.seal.make()
    save_points(
        run,
        points(("confidence:0.5", 27.0, 1.5, 0.5), ("confidence:0.25,0.5,0.75", 28.0, 2.5, 0.75), policy="confidence"),
    )
    save_points(run, points(("similarity:0.875", 27.5, 2.0, 0.625), policy="similarity"))
    return Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, translator.config, run=run
    )


def test_a_wish_becomes_the_policy_of_the_point_that_meets_it_best(tuned: Translator) -> None:
    assert tuned.tuned_policy(average_exit=2.0).name == "similarity:0.875"
    assert tuned.tuned_policy(average_exit=2.0, policy="confidence").name == "confidence:0.5"
    assert tuned.tuned_policy(flops=0.75).name == "confidence:0.25,0.5,0.75"
    assert tuned.tuned_policy(bleu_drop=2.5).name == "similarity:0.875"
    assert tuned.tuned_policy(average_exit=3.0, flops=0.5).name == "confidence:0.5"


def test_a_tuned_policy_translates_as_its_name_does(tuned: Translator) -> None:
    by_wish = tuned.translate(LINES, policy=tuned.tuned_policy(flops=0.75), beam=1)
    assert words_and_exits(by_wish) == words_and_exits(
        tuned.translate(LINES, policy="confidence:0.25,0.5,0.75", beam=1)
    )


def test_a_wish_is_refused_without_a_run_and_by_a_run_that_was_not_tuned(
    translator: Translator, tuned: Translator
) -> None:
    with pytest.raises(
        UsageError,
        match=r"--average-exit 2 needs the operating points of a run; make the translator with Translator.load",
    ):
        translator.operating_point(Wish(average_exit=2.0))
    assert tuned.run is not None
    tuned.run.seal.remove([tuned.run.points_file])
    with pytest.raises(RunError, match=r"has no operating points; find some with `anydepth tune"):
        tuned.tuned_policy(average_exit=2.0)


def test_points_of_weights_that_have_changed_since_are_not_used(tuned: Translator) -> None:
    assert tuned.run is not None
    tuned.run.weights_file.write_bytes(b"other weights")
    tuned.run.seal.make()
    with pytest.raises(RunError, match=r"were tuned for other weights than it has now; tune again"):
        tuned.tuned_policy(average_exit=2.0)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (None, "not a NoneType"),
        (b"Hund", "not a bytes"),
        ({"ein Hund"}, "not a set"),
        (iter(["ein Hund"]), "not a list_iterator; for an iterator there is translate_stream"),
        (["ein Hund", b"Hund"], "line 2 is a bytes"),
        ([None], "line 1 is a NoneType"),
    ],
    ids=["nothing", "bytes", "set", "iterator", "bytes inside", "nothing inside"],
)
def test_what_is_no_list_of_texts_is_refused_in_one_sentence(lines: object, what: str) -> None:
    with pytest.raises(UsageError, match=rf"^translate takes .*{what}"):
        check_lines(lines)


@pytest.mark.parametrize("batch_tokens", [0, -5, 10**20])
def test_a_batch_of_no_size_is_refused(translator: Translator, batch_tokens: int) -> None:
    with pytest.raises(UsageError, match=rf"^batch_tokens = {batch_tokens} must lie between 1 and"):
        translator.translate(["ein Hund"], batch_tokens=batch_tokens)
