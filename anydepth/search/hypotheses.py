"""Hypotheses, and the record of a search from which they are read back at its end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from anydepth.text.tokenizer import EOS


@dataclass(frozen=True)
class Hypothesis:
    """One output sentence with one exit and one log-probability a token.

    EOS is the last token, of its own accord (`has_finished`) or because the limit was reached. Only
    searches of an exact length, which know no EOS, give others.
    """

    tokens: list[int]
    exits: list[int]
    token_scores: list[float]
    score: float
    has_finished: bool
    words: int | None = None  # how many words the sentence chose among; None: all of the vocabulary


@dataclass(frozen=True)
class SearchStep:
    """What one time step kept: the token, exit and log-probability of each entry, and its parent
    among the entries before."""

    parents: Int[Tensor, " entry"]
    tokens: Int[Tensor, " entry"]
    exits: Int[Tensor, " entry"]
    token_scores: Float[Tensor, " entry"]


@dataclass(frozen=True)
class End:
    """The entries of the step at `time` with which hypotheses of `sentences` came to their end."""

    time: int
    entries: Int[Tensor, " ended"]
    sentences: Int[Tensor, " ended"]
    has_finished: bool


@dataclass
class History:
    """Every step of a search as pointers back to the step before, so that no prefix is ever
    copied."""

    steps: list[SearchStep] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    def end(
        self, entries: Int[Tensor, " ended"], sentences: Int[Tensor, " ended"], *, has_finished: bool = True
    ) -> None:
        """Marks entries of the last step as the ends of hypotheses."""
        if len(entries):
            self.ends.append(End(len(self.steps) - 1, entries, sentences, has_finished))

    def force_ends(
        self,
        parents: Int[Tensor, " ended"],
        exits: Int[Tensor, " ended"],
        token_scores: Float[Tensor, " ended"],
        sentences: Int[Tensor, " ended"],
    ) -> None:
        """Adds to the last step an EOS after each of `parents`, with which these hypotheses end
        because they reached their limit."""
        last = self.steps[-1]
        added = SearchStep(parents, torch.full_like(parents, EOS), exits, token_scores)
        self.steps[-1] = SearchStep(
            *(torch.cat([getattr(step, name) for step in (last, added)]) for name in SearchStep.__dataclass_fields__)
        )
        self.end(len(last.tokens) + torch.arange(len(parents), device=parents.device), sentences, has_finished=False)

    def ranked(
        self, sentences: int, *, length_penalty: float, words: Sequence[int] | None = None
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, highest score first; of equal ones that which ended
        first. `words` tells how many words each sentence chose among, where these were not all."""
        lists: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        for sentence, tokens, exits, scores, has_finished in self._sequences():
            score = sum(scores) / len(scores) ** length_penalty
            lists[sentence].append(
                Hypothesis(tokens, exits, scores, score, has_finished, None if words is None else words[sentence])
            )
        return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in lists]

    def _sequences(self) -> Sequence[tuple[int, list[int], list[int], list[float], bool]]:
        """Sentence, tokens, exits, token scores and whether it finished of each hypothesis: one
        walk back in time for all together."""
        if not self.ends:
            return []
        times = torch.cat([torch.full_like(end.entries, end.time) for end in self.ends])
        entries = torch.cat([end.entries for end in self.ends])
        tokens, exits = times.new_zeros(2, len(times), len(self.steps)).unbind()
        scores = self.steps[0].token_scores.new_zeros(len(times), len(self.steps))
        for t in reversed(range(len(self.steps))):
            step, active = self.steps[t], (times >= t).nonzero()[:, 0]
            current = entries[active]
            tokens[active, t], exits[active, t], scores[active, t] = (
                step.tokens[current],
                step.exits[current],
                step.token_scores[current],
            )
            entries[active] = step.parents[current]
        sentences = torch.cat([end.sentences for end in self.ends]).tolist()
        finished = [end.has_finished for end in self.ends for _ in range(len(end.entries))]
        rows = zip(sentences, times.tolist(), tokens.tolist(), exits.tolist(), scores.tolist(), finished, strict=True)
        return [
            (sentence, row[: t + 1], left[: t + 1], scored[: t + 1], own)
            for sentence, t, row, left, scored, own in rows
        ]
