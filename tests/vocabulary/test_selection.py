"""Search among selected words: that of a model which scores no other words."""

import math

import pytest
import torch
from adapters import ADAPTER
from inference.native_searches import sentences
from selections import SELECTIONS, every_word, learned_selection, table_selection
from tiny import tiny_model
from torch import Tensor
from variations import MARIAN
from walks import POLICIES, model_for

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import NativeEngine, has_native
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.model.source import EncodedSource
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.vocabulary.selection import CandidateWords, WordSelection

ENGINES = [TorchEngine, *([NativeEngine] if has_native() else [])]


def words_of(model: AdaptiveTransformer, words: WordSelection, text: list[int]) -> Tensor:
    """Which words (vocab) a sentence alone may use."""
    source, mask = make_source([text])
    return words.allowed(EncodedSource(source, mask, model.encode(source, mask)))[0]


@pytest.mark.parametrize("changes", [(), (*MARIAN, ADAPTER)], ids=["plain", "as Marian's, with adapters"])
@pytest.mark.parametrize("kind", SELECTIONS)
@pytest.mark.parametrize("text", POLICIES)
@torch.no_grad()
def test_other_words_are_as_if_they_scored_nothing(
    text: str, kind: str, changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_for(text, *changes, seed=3)
    words, policy, texts = SELECTIONS[kind](model), parse_policy(text, model), sentences(6, seed=4)
    settings = SearchSettings(beam=3, best=3, length_ratio=0.5, length_offset=4)
    found = search(model, *make_source(texts), policy, SearchSettings(**{**vars(settings), "words": words}))
    classifier_logits, choices = model.classifier_logits, [words_of(model, words, each) for each in texts]
    for own, allowed, hypotheses in zip(texts, choices, found, strict=True):
        monkeypatch.setattr(
            model,
            "classifier_logits",
            lambda n, scored, allowed=allowed: classifier_logits(n, scored).masked_fill(~allowed, -math.inf),
        )
        if text.startswith("shortlist"):
            monkeypatch.setattr(CandidateWords, "chosen_logits", masked_choice(allowed))
        (alone,) = search(model, *make_source([own]), policy, settings)
        monkeypatch.undo()
        assert [(each.tokens, each.exits) for each in hypotheses] == [(each.tokens, each.exits) for each in alone]
        assert [each.score for each in hypotheses] == pytest.approx([each.score for each in alone], abs=1e-5)
        assert {each.words for each in hypotheses} == {int(allowed.sum())}
    assert len({int(allowed.sum()) for allowed in choices}) > 1, "else the sentences share their words"


def masked_choice(allowed: Tensor) -> object:
    """`CandidateWords.chosen_logits` of all words, without those that are not allowed."""
    chosen_logits = CandidateWords.chosen_logits

    def masked(self: CandidateWords, n: int, hidden: Tensor, places: Tensor) -> Tensor:
        return chosen_logits(self, n, hidden, places).masked_fill(~allowed[places], -math.inf)

    return masked


@pytest.mark.parametrize("text", POLICIES)
def test_a_selection_of_all_words_changes_nothing(text: str) -> None:
    model, texts = model_for(text, seed=5), sentences(9, seed=5)
    policy, words = parse_policy(text, model), every_word(model)
    plain, selected = (
        search(model, *make_source(texts), policy, SearchSettings(beam=4, best=4, words=chosen))
        for chosen in (None, words)
    )
    for ranked, others in zip(plain, selected, strict=True):
        assert [(each.tokens, each.exits) for each in ranked] == [(each.tokens, each.exits) for each in others]
        assert (ranked[0].words, others[0].words) == (None, words.smallest)


def test_a_beam_that_wants_more_words_than_a_sentence_may_have_is_refused() -> None:
    words = table_selection(model_for("fixed:1"))
    assert SearchSettings(beam=5, words=words).has_room(words)
    message = (
        r"beam = 6 wants 13 words to choose from, but the vocabulary selection table:2 may leave 11; narrow the beam "
        "or take --vocabulary full"
    )
    with pytest.raises(UsageError, match=message):
        SearchSettings(beam=6, words=words)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_selection_of_other_vocabularies_is_refused_by_every_engine(engine: type[Engine]) -> None:
    model, other = model_for("fixed:1"), tiny_model(is_joint=True)
    for words in (table_selection(other), learned_selection(other)):
        with pytest.raises(
            UsageError, match=r"is of vocabularies of 23 and 23 pieces, but this model's have 19 and 23"
        ):
            engine(model).search([[5, 6]], FixedExit(1, model.blocks), SearchSettings(words=words))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_learned_selection_of_another_encoder_is_refused_by_every_engine(engine: type[Engine]) -> None:
    model, other = model_for("fixed:1"), tiny_model("model.encoder.dim=8")
    with pytest.raises(UsageError, match=r"looks at encoder states of width 8, but this model's have 16; take one of"):
        engine(model).search([[5, 6]], FixedExit(1, model.blocks), SearchSettings(words=learned_selection(other)))
