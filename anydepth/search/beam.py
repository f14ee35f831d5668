"""Beam search in small pieces; greedy search is a beam of 1."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.exits.policies import Policy
from anydepth.model.cache import DecoderCache
from anydepth.model.source import EncodedSource
from anydepth.model.transformer import Transformer
from anydepth.search.decoding import NEVER_PRODUCED, SearchSettings
from anydepth.search.hypotheses import History, Hypothesis, SearchStep
from anydepth.text.tokenizer import BOS, EOS
from anydepth.vocabulary.selection import CandidateWords

__all__ = ["Hypothesis", "search"]


@dataclass
class Frontier:
    """The sentences still searched. Their rows, `width` per sentence, stand together in the order
    of sentences."""

    sentences: Int[Tensor, " sentence"]  # numbers within the batch given to search
    limits: Int[Tensor, " sentence"]
    planned: Int[Tensor, "sentence time"]
    finished: Int[Tensor, " sentence"]  # how many hypotheses have
    ended: Float[Tensor, "sentence beam"]  # the best scores of those that have; -inf where there are fewer
    totals: Float[Tensor, "sentence width"]
    tokens: Int[Tensor, " row"]  # the last token of each row
    entries: Int[Tensor, " row"]  # where the last step of the history holds each row


@dataclass(frozen=True)
class Candidates:
    """The best continuations of each sentence, best first."""

    totals: Float[Tensor, "sentence candidate"]
    rows: Int[Tensor, "sentence candidate"]  # the row that each one continues
    tokens: Int[Tensor, "sentence candidate"]
    token_scores: Float[Tensor, "sentence candidate"]


def search(
    model: Transformer,
    source: Int[Tensor, "sentence source"],
    source_mask: Bool[Tensor, "sentence source"],
    policy: Policy,
    settings: SearchSettings,
    *,
    memory: Float[Tensor, "sentence source encoder_dim"] | None = None,
) -> list[list[Hypothesis]]:
    """The `settings.best` hypotheses of each sentence, best first.

    A sentence is done when `beam` hypotheses have finished (without `early_stopping`, when those
    that run have also fallen behind), or when its limit is reached: then the last token of those
    still running is EOS, and they pay for it as the others do (with an `exact_length`, where
    nothing ends, they stay as they are). Dropout is off meanwhile. `memory`, where given, is what
    the encoder made of the sentences before.
    """
    if len(source) == 0:
        return []
    history = History()
    with torch.inference_mode(), _evaluating(model):
        memory = model.encode(source, source_mask) if memory is None else memory
        cache = model.start_cache(memory, source_mask)
        limits = settings.limits(source_mask, max_length=model.config.max_length)
        encoded = EncodedSource(source, source_mask, memory)
        words = CandidateWords.of_batch(model, settings.words, encoded)
        banned, end = words.places_of(settings.never_produced), words.places_of([EOS])
        frontier = start_frontier(limits, policy.plan(encoded, limit=int(limits.max())), beam=settings.beam)
        while len(frontier.sentences):
            planned = frontier.planned[:, cache.time].repeat_interleave(frontier.totals.shape[1])
            decisions = policy.decisions(words.of_rows(frontier.sentences[cache.sentence_of_row]))
            hidden, exits = model.step(frontier.tokens, cache, planned, decisions.revise)
            log_probs = decisions.word_logits(hidden, exits).log_softmax(dim=-1)
            candidates = best_candidates(frontier.totals, log_probs, count=2 * settings.beam, banned=banned)
            candidates = replace(candidates, tokens=words.tokens_at(candidates.tokens))
            end_scores = log_probs[:, end[0]] if settings.exact_length is None else None
            frontier = advance(frontier, candidates, exits, cache, history, settings, end_scores=end_scores)
        ranked = history.ranked(len(source), length_penalty=settings.length_penalty, words=words.sizes())
    return [hypotheses[: settings.best] for hypotheses in ranked]


def start_frontier(limits: Int[Tensor, " sentence"], planned: Int[Tensor, "sentence time"], *, beam: int) -> Frontier:
    """One row with nothing but BOS for each sentence."""
    numbers, zeros = torch.arange(len(limits), device=limits.device), torch.zeros_like(limits)
    totals = zeros[:, None].float()
    ended = totals.new_full((len(limits), beam), -math.inf)
    return Frontier(numbers, limits, planned, zeros, ended, totals, torch.full_like(limits, BOS), zeros)


def best_candidates(
    totals: Float[Tensor, "sentence width"],
    log_probs: Float[Tensor, "row vocab"],
    *,
    count: int,
    banned: Sequence[int] = NEVER_PRODUCED,
) -> Candidates:
    """The `count` best continuations of each sentence, or as many as there are; `banned` words
    never continue anything. Tokens are told by the places of their scores."""
    sentences, width = totals.shape
    vocab = log_probs.shape[1]
    sums = totals.view(-1, 1) + log_probs  # (row, vocab)
    sums[:, banned] = -math.inf
    count = min(count, width * (vocab - len(banned)))
    best, places = sums.view(sentences, width * vocab).topk(count)  # (sentence, candidate)
    first_rows = torch.arange(0, sentences * width, width, device=totals.device)[:, None]
    rows, tokens = first_rows + places // vocab, places % vocab
    return Candidates(best, rows, tokens, log_probs[rows, tokens])


def advance(
    frontier: Frontier,
    candidates: Candidates,
    exits: Int[Tensor, " row"],
    cache: DecoderCache,
    history: History,
    settings: SearchSettings,
    *,
    end_scores: Float[Tensor, " row"] | None,
) -> Frontier:
    """The frontier one token later; `history` learns what was kept and what came to its end,
    `cache` takes the new order.

    EOS finishes a hypothesis if it is among the `beam` best candidates. The best others live on, up
    to `beam` of them; no more than one candidate of a row is EOS, so fewer live on only where the
    vocabulary is too small for more. At its limit a sentence that lacks finished hypotheses gets
    those that end there with EOS, whose log-probabilities are `end_scores`; without these, it gets
    what would have lived on.
    """
    is_end, beam = candidates.tokens == EOS, settings.beam
    sentences, count = is_end.shape
    rows, tokens = candidates.rows.flatten(), candidates.tokens.flatten()
    history.steps.append(SearchStep(frontier.entries[rows], tokens, exits[rows], candidates.token_scores.flatten()))

    sentence, place = is_end[:, :beam].nonzero(as_tuple=True)
    history.end(sentence * count + place, frontier.sentences[sentence])
    finished = frontier.finished + is_end[:, :beam].sum(dim=1)

    width = min(beam, count - frontier.totals.shape[1])
    alive = is_end.byte().argsort(dim=1, stable=True)[:, :width]  # (sentence, width)
    entries = torch.arange(0, sentences * count, count, device=alive.device)[:, None] + alive
    is_full, ended = have_enough(finished, frontier.ended, candidates, alive, time=cache.time, settings=settings)
    is_cut = ~is_full & (frontier.limits <= cache.time)
    if end_scores is None:
        history.end(entries[is_cut].flatten(), frontier.sentences[is_cut].repeat_interleave(width), has_finished=False)
    else:
        old_width = frontier.totals.shape[1]
        is_unfinished = is_cut.repeat_interleave(old_width)
        is_unfinished[candidates.rows[:, :beam][is_end[:, :beam]]] = False
        forced = is_unfinished.nonzero()[:, 0]
        history.force_ends(
            frontier.entries[forced], exits[forced], end_scores[forced], frontier.sentences[forced // old_width]
        )

    kept = (~(is_full | is_cut)).nonzero()[:, 0]
    living = entries[kept].flatten()
    cache.choose_rows(rows[living])
    if len(kept) < sentences:
        cache.choose_sentences(kept)
    return Frontier(
        frontier.sentences[kept],
        frontier.limits[kept],
        frontier.planned[kept],
        finished[kept],
        ended[kept],
        candidates.totals.flatten()[living].view(len(kept), width),
        tokens[living],
        living,
    )


def have_enough(
    finished: Int[Tensor, " sentence"],
    ended: Float[Tensor, "sentence beam"],
    candidates: Candidates,
    alive: Int[Tensor, "sentence width"],
    *,
    time: int,
    settings: SearchSettings,
) -> tuple[Bool[Tensor, " sentence"], Float[Tensor, "sentence beam"]]:
    """Which sentences have enough finished hypotheses, and the best scores of these, best first.

    Without early stopping, also the best of those `alive` must be ranked behind all of them at its
    present length; only then the scores are kept.
    """
    if settings.early_stopping:
        return finished >= settings.beam, ended
    scores = (candidates.totals / time**settings.length_penalty)[:, : settings.beam]
    new = scores.where(candidates.tokens[:, : settings.beam] == EOS, -math.inf)
    best = torch.cat([ended, new], dim=1).topk(settings.beam).values
    if alive.shape[1] == 0:
        return finished >= settings.beam, best
    first = candidates.totals.gather(1, alive[:, :1])[:, 0]
    return (finished >= settings.beam) & (first / time**settings.length_penalty <= best[:, -1]), best


@contextmanager
def _evaluating(model: Transformer) -> Iterator[None]:
    """The model without dropout, and afterwards as it was."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()
