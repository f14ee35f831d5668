"""The contract of a word selection, and the words among which a batch is searched."""

import math
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from anydepth.model.source import EncodedSource
from anydepth.model.transformer import Transformer


@runtime_checkable
class WordSelection(Protocol):
    """Chooses the output words of each source sentence before decoding.

    A sentence's words must not depend on its neighbours or on padding, and EOS is among them.
    """

    @property
    def name(self) -> str:
        """The selection in the words of a recipe, such as "table:50"."""

    @property
    def pieces(self) -> tuple[int, int]:
        """How many pieces the source's and the target's vocabulary have."""

    @property
    def encoder_dim(self) -> int | None:
        """The width of the encoder's states that it looks at; None if it looks at none."""

    @property
    def smallest(self) -> int:
        """No sentence has fewer words than these."""

    def flops(self) -> int:
        """What choosing costs per sentence."""

    def allowed(self, source: EncodedSource) -> Bool[Tensor, "sentence vocab"]:
        """The words that each sentence may use."""


@dataclass(frozen=True, eq=False)
class CandidateWords:
    """The words that each of some rows may use, and their scores: probabilities are those among
    them.

    Scores are computed for `tokens`, which hold the words of every row, in ascending order; they
    are -inf where a row may not use one. Without `tokens` every row may use all words.
    """

    model: Transformer
    tokens: Int[Tensor, " word"] | None = None
    allowed: Bool[Tensor, "row word"] | None = None
    panels: dict[int, Tensor] = field(default_factory=dict)  # the classifiers' rows of `tokens`, by exit
    bias: Float[Tensor, " word"] | None = None  # of `tokens`, where the model has one

    @classmethod
    def of_batch(cls, model: Transformer, selection: WordSelection | None, source: EncodedSource) -> "CandidateWords":
        """The words of the sentences of a batch, one row for each; all words without a selection."""
        if selection is None:
            return cls(model)
        allowed = selection.allowed(source)
        tokens = allowed.any(dim=0).nonzero()[:, 0]
        bias = None if model.output_bias is None else model.output_bias[tokens]
        return cls(model, tokens, allowed[:, tokens], bias=bias)

    def of_rows(self, rows: Int[Tensor, " chosen"]) -> "CandidateWords":
        """Those of `rows`, in this order."""
        return self if self.allowed is None else replace(self, allowed=self.allowed[rows])

    def sizes(self) -> list[int] | None:
        """How many words each row may use; None if all of them."""
        return None if self.allowed is None else self.allowed.sum(dim=1).tolist()

    def logits_at(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, "row word"]:
        """The words' scores by the classifier of exit n (Eq. 3)."""
        return self._hidden_from(self._panel_logits(n, self.model.scored_states(n, hidden)))

    def exit_logits(self, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]) -> Float[Tensor, "row word"]:
        """The words' scores for states that left at `exits`, each from its own exit's classifier
        (Eq. 3)."""
        return self._hidden_from(self.model.exit_logits(hidden, exits, self._panel_logits))

    def chosen_logits(
        self, n: int, hidden: Float[Tensor, "row dim"], places: Int[Tensor, "row chosen"]
    ) -> Float[Tensor, "row chosen"]:
        """The scores of some words alone, others for each row, by the classifier of exit n."""
        tokens = self.tokens_at(places)
        rows = self.model.classifier(n)[tokens]  # (row, chosen, dim)
        logits = torch.bmm(rows, self.model.scored_states(n, hidden).unsqueeze(-1)).squeeze(-1)
        if self.model.output_bias is not None:
            logits = logits + self.model.output_bias[tokens]
        return logits if self.allowed is None else logits.masked_fill(~self.allowed.gather(1, places), -math.inf)

    def tokens_at(self, places: Int[Tensor, "*place"]) -> Int[Tensor, "*place"]:
        """The tokens whose scores stand at `places`."""
        return places if self.tokens is None else self.tokens[places]

    def places_of(self, tokens: list[int]) -> list[int]:
        """Where the scores of `tokens` stand; those that no row may use have no place."""
        if self.tokens is None:
            return tokens
        places = {token: place for place, token in enumerate(self.tokens.tolist())}
        return [places[token] for token in tokens if token in places]

    def _panel_logits(self, n: int, scored: Float[Tensor, "row dim"]) -> Float[Tensor, "row word"]:
        """The words' scores by the classifier of exit n, which sees `scored`."""
        if self.tokens is None:
            return self.model.classifier_logits(n, scored)
        if n not in self.panels:
            self.panels[n] = self.model.classifier(n)[self.tokens]
        return F.linear(scored, self.panels[n], self.bias)

    def _hidden_from(self, logits: Float[Tensor, "row word"]) -> Float[Tensor, "row word"]:
        """`logits` without those that a row may not use."""
        return logits if self.allowed is None else logits.masked_fill(~self.allowed, -math.inf)
