"""What a policy is worth on a test set: quality, depth and speed, computed from what search
recorded."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anydepth.config.schema import Config
from anydepth.evaluation.bleu import QualityScores, score_texts
from anydepth.evaluation.executed import executed_decoder_flops
from anydepth.evaluation.significance import PairedComparison
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecisionCost, DecoderShape, no_decision, sentence_flops
from anydepth.exits.policies import FixedExit, Policy
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.translator import Translation, Translator
from anydepth.search.decoding import AS_CONFIGURED, GREEDY, DecodingOptions
from anydepth.text.prepared import PreparedData
from anydepth.vocabulary.names import FULL
from anydepth.vocabulary.selection import WordSelection


@dataclass(frozen=True)
class Measurement:
    """Figures of one policy on one test set, with the recipe that made them."""

    policy: str
    scores: QualityScores
    average_exit: float
    exit_counts: list[int]
    mflops_per_token: float
    flops_share: float
    tokens_per_second: float
    executed_mflops_per_token: float | None
    comparison: PairedComparison | None
    sentences: int
    tokens: int
    beam: int
    length_penalty: float
    vocabulary: str  # the selection of words; "full" is all of them
    words: float  # that a sentence could choose among, on average


def measure(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    policy: Policy,
    decoding: DecodingOptions = AS_CONFIGURED,
) -> tuple[Measurement, list[Translation]]:
    """The figures of `policy`, and the translations that they were computed from."""
    search = translator.search_settings(decoding)  # a selection of words is loaded before the clock runs
    started = time.perf_counter()
    translations = translator.translate_lines(sources, policy, decoding)
    seconds = time.perf_counter() - started
    tokens = sum(len(translation.exits) for translation in translations)
    blocks = translator.model.blocks
    flops = decoder_flops(translator, translations, policy.cost, selection=search.words)
    full, translated = full_depth_flops(translator, translations), [each for each in translations if each.exits]
    figures = Measurement(
        policy=policy.name,
        scores=score_texts([translation.text for translation in translations], references),
        average_exit=average_exit(translations),
        exit_counts=[sum(translation.exits.count(n) for translation in translations) for n in range(1, blocks + 1)],
        mflops_per_token=flops / max(tokens, 1) / 1e6,
        flops_share=flops / full if full else 0.0,
        tokens_per_second=tokens / seconds,
        executed_mflops_per_token=None,
        comparison=None,
        sentences=len(translations),
        tokens=tokens,
        beam=search.beam,
        length_penalty=search.length_penalty,
        vocabulary=FULL if search.words is None else search.words.name,
        words=sum(each.words for each in translated) / max(len(translated), 1),
    )
    return figures, translations


def average_exit(translations: Sequence[Translation]) -> float:
    """AE: the mean exit over the output tokens, `</s>` included (section 4.3)."""
    exits = [left for translation in translations for left in translation.exits]
    return sum(exits) / len(exits) if exits else 0.0


def executed_mflops_per_token(
    translator: Translator,
    sources: Sequence[str],
    policy: Policy,
    decoding: DecodingOptions = AS_CONFIGURED,
) -> float:
    """What the decoder really executes for an output token, counted by torch while the plain step
    translates `sources` once more.

    All hypotheses of the beam and the padding of batches are in it, and the encoder is not.
    """
    plain = translator.with_engine(TorchEngine(translator.model))
    with executed_decoder_flops() as executed:
        translations = plain.translate_lines(sources, policy, decoding)
    return executed.decoder / max(sum(len(translation.exits) for translation in translations), 1) / 1e6


def decoder_flops(
    translator: Translator,
    translations: Sequence[Translation],
    cost: DecisionCost,
    *,
    selection: WordSelection | None = None,
) -> int:
    """What the decoder's output tokens cost by their recorded exits (appendix B), decisions
    included.

    V is the number of words that the sentence could choose among; what it took the `selection` to
    choose them is counted, too.
    """
    model, choosing = translator.model.config, 0 if selection is None else selection.flops()
    return sum(
        choosing + sentence_flops(DecoderShape.of(model, each.words), each.exits, each.source_length, cost)
        for each in translations
        if each.exits
    )


def full_depth_flops(translator: Translator, translations: Sequence[Translation]) -> int:
    """What the same tokens would cost if every one went through all blocks, nothing were decided
    and all words could be chosen."""
    blocks, words = translator.model.blocks, translator.model.target_embedding.num_embeddings
    deep = [replace(each, exits=[blocks] * len(each.exits), words=words) for each in translations]
    return decoder_flops(translator, deep, no_decision)


def validation_scorer(data: PreparedData, config: Config) -> Callable[[AdaptiveTransformer], list[float]]:
    """A function that gives a model's greedy BLEU at each exit on the first validation sentences,
    for use during training."""
    sources, references = (lines[: config.validation.sentences] for lines in data.references("valid"))

    def score(model: AdaptiveTransformer) -> list[float]:
        translator = Translator(model, data.source_tokenizer, data.target_tokenizer, config.decoding)
        return greedy_bleu_per_exit(translator, sources, references)

    return score


def greedy_bleu_per_exit(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> list[float]:
    """BLEU (13a) of greedy translations at each exit that has a classifier, lowest exit first."""
    model = translator.model
    policies = [FixedExit(n, model.blocks) for n in model.config.classifier_exits]
    return [measure(translator, sources, references, policy, GREEDY)[0].scores.bleu.value for policy in policies]
