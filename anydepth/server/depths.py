"""How deep each word of an answer went, and how sure the model was on the way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from anydepth.evaluation.measure import average_exit, decoder_flops, full_depth_flops
from anydepth.inference.passed_blocks import passed_probabilities
from anydepth.inference.translator import END_PIECE, Translation, Translator, word_exits
from anydepth.search.beam import Hypothesis
from anydepth.server.budgets import SearchPlan


class PieceDepth(BaseModel):
    """A piece of a word: the block after which it left, its probability there, and its probability
    after each block that it passed (null after a block without a classifier)."""

    text: str
    exit: int
    probability: float
    passed: list[float | None]


class WordDepth(BaseModel):
    """A word: the deepest exit of its pieces, the product of their probabilities, and the pieces."""

    text: str
    exit: int
    probability: float
    pieces: list[PieceDepth]


class SentenceDepth(BaseModel):
    """A sentence with its words."""

    source: str
    text: str
    words: list[WordDepth]


class TextDepth(BaseModel):
    """What a text cost: the policy and the words chosen from, the average exit of its tokens with
    the ends of sentences, its share of full depth's FLOPs, and the time that its search took."""

    blocks: int
    policy: str
    vocabulary: str
    average_exit: float
    flops_share: float
    milliseconds: float
    sentences: list[SentenceDepth]


@dataclass(frozen=True)
class SearchedSentence:
    """A source sentence, its tokens, and what search found for it; nothing where it has no token."""

    source: str
    ids: Sequence[int]
    hypotheses: Sequence[Hypothesis]
    translation: Translation


def text_depth(
    translator: Translator, plan: SearchPlan, sentences: Sequence[SearchedSentence], *, milliseconds: float
) -> TextDepth:
    """The depth of a text whose sentences were searched as `plan` says."""
    translations = [each.translation for each in sentences]
    full = full_depth_flops(translator, translations)
    flops = decoder_flops(translator, translations, plan.policy.cost, selection=plan.settings.words)
    return TextDepth(
        blocks=translator.model.blocks,
        policy=plan.policy.name,
        vocabulary=plan.vocabulary,
        average_exit=average_exit(translations),
        flops_share=flops / full if full else 0.0,
        milliseconds=milliseconds,
        sentences=[sentence_depth(translator, plan, each) for each in sentences],
    )


def sentence_depth(translator: Translator, plan: SearchPlan, sentence: SearchedSentence) -> SentenceDepth:
    """The depth of each word of a sentence; its end, which is no word, is left out."""
    translation, words = sentence.translation, list[WordDepth]()
    if sentence.hypotheses:
        best = sentence.hypotheses[0]
        passed = passed_probabilities(translator.model, sentence.ids, best.tokens, best.exits, plan.settings.words)
        pieces = [
            PieceDepth(text=text, exit=left, probability=math.exp(score), passed=on_the_way)
            for text, left, score, on_the_way in zip(
                translation.tokens, translation.exits, translation.scores, passed, strict=True
            )
        ]
        place = 0
        for text, exits in word_exits(translation.tokens, translation.exits):
            own, place = pieces[place : place + len(exits)], place + len(exits)
            if own[0].text != END_PIECE:
                together = math.prod(piece.probability for piece in own)
                words.append(WordDepth(text=text, exit=max(exits), probability=together, pieces=own))
    return SentenceDepth(source=sentence.source, text=translation.text, words=words)
