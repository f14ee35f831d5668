"""What a model thought of the words it wrote after each block that they passed."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.source import EncodedSource
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import BOS
from anydepth.vocabulary.selection import CandidateWords, WordSelection


def passed_probabilities(
    model: AdaptiveTransformer,
    source_ids: Sequence[int],
    tokens: Sequence[int],
    exits: Sequence[int],
    words: WordSelection | None,
) -> list[list[float | None]]:
    """The probability of each output token after each block 1..n_t that it passed, None after a
    block without a classifier.

    The output is decoded once more, forced, with the exits that it took (mixed, Eq. 5), so the
    states are those of the search; probabilities are those among the same selected words.
    """
    source, mask = make_source([source_ids])
    inputs, left = torch.tensor([[BOS, *tokens[:-1]]]), torch.tensor([exits])
    with torch.inference_mode():
        memory = model.encode(source, mask)
        states = model.decode(inputs, memory, mask, exits=left)[:, 0]  # (block, time, dim)
        candidates = CandidateWords.of_batch(model, words, EncodedSource(source, mask, memory))
        rows = candidates.of_rows(torch.zeros(len(tokens), dtype=torch.long))
        known = {n: _token_probabilities(rows, n, states[n - 1], tokens) for n in model.config.classifier_exits}
    return [[known[n][t] if n in known else None for n in range(1, own + 1)] for t, own in enumerate(exits)]


def _token_probabilities(
    rows: CandidateWords, n: int, hidden: Float[Tensor, "time dim"], tokens: Sequence[int]
) -> list[float]:
    """The probability of each token by the classifier of block n, among its row's words."""
    shares = rows.logits_at(n, hidden).softmax(dim=-1)  # (time, word)
    places = torch.tensor([rows.places_of([token])[0] for token in tokens])
    chosen: list[float] = shares[torch.arange(len(tokens)), places].tolist()
    return chosen
