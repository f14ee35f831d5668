"""Training a learned word selection: which words a translation has, told by the encoder's states of
a model that stays as it is."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from anydepth.messages.progress import ProgressBar
from anydepth.messages.say import Say
from anydepth.model.source import EncodedSource
from anydepth.model.transformer import Transformer
from anydepth.runs.models import load_model
from anydepth.runs.operating_points import weights_fingerprint
from anydepth.runs.run import Run, usable_data
from anydepth.runs.word_selections import LearnedWordsRecipe, save_learned
from anydepth.text.batches import Batch, BatchStream, Position, make_batch
from anydepth.text.tokens import TokenPairs
from anydepth.vocabulary.alignment import gathered
from anydepth.vocabulary.learned_selection import pooled_states
from anydepth.vocabulary.standing_words import always_words

PAIRS_COUNTED = 1_000_000  # the words that are always there are the most frequent ones of so many pairs


@dataclass(frozen=True, kw_only=True)
class SelectionTraining:
    """How a learned selection is trained.

    A word that occurs counts `positive_weight` times as much as one that does not: a word that is
    missed spoils the translation, one too many costs a little time (Domhan et al., 2022).
    """

    updates: int = 2000
    minutes: float = 10.0
    positive_weight: float = 10.0
    learning_rate: float = 3e-3
    batch_tokens: int = 4096
    frequent: int = 100
    seed: int = 1


def train_selection(
    run: Run, settings: SelectionTraining, *, data_folder: Path | None = None, say: Say
) -> LearnedWordsRecipe:
    """Trains the learned selection of the run on its training text, or on prepared text in its
    vocabulary, and stores it."""
    data, model = usable_data(run, data_folder, use="--data"), load_model(run)
    source, target = run.tokenizers()
    pairs = data.pairs("train")
    most = f"at most {settings.updates:,} updates or {settings.minutes:g} minutes"
    say(f"training a word selection on {len(pairs):,} pairs, {most}")
    occurrences = piece_counts(pairs, target.size, seed=settings.seed)
    classifier, updates = trained_classifier(model, pairs, occurrences, settings, say)
    recipe = LearnedWordsRecipe(
        source_tokenizer=source.fingerprint,
        target_tokenizer=target.fingerprint,
        data=data.fingerprint,
        pairs=len(pairs),
        frequent=settings.frequent,
        seed=settings.seed,
        weights=weights_fingerprint(run),
        updates=updates,
        positive_weight=settings.positive_weight,
        learning_rate=settings.learning_rate,
    )
    always = always_words(target, occurrences, frequent=settings.frequent)
    save_learned(run, classifier.weight, classifier.bias, always, recipe)
    return recipe


def trained_classifier(
    model: Transformer,
    pairs: TokenPairs,
    occurrences: Int[np.ndarray, " target_vocab"],
    settings: SelectionTraining,
    say: Say,
) -> tuple[nn.Linear, int]:
    """The classifier of the pooled states after all updates, or as many as there was time for, and
    their number; the learning rate falls to 0 in a straight line."""
    classifier = fresh_classifier(model.config.encoder.dim, occurrences, len(pairs))
    optimizer = torch.optim.Adam(classifier.parameters())
    stream = BatchStream(pairs, max_tokens=settings.batch_tokens, seed=settings.seed)
    started, updates = time.monotonic(), 0
    with ProgressBar(settings.updates, "updates", say) as bar:
        for indices, _ in stream.from_position(Position()):
            spent = max(updates / settings.updates, (time.monotonic() - started) / (60 * settings.minutes))
            if updates == settings.updates or (updates and spent >= 1):
                break
            optimizer.param_groups[0]["lr"] = settings.learning_rate * max(1 - spent, 0.01)
            batch = make_batch(pairs, indices).cut(model.config.max_length + 1)
            optimizer.zero_grad()
            torch.autograd.backward(occurrence_loss(classifier, model, batch, settings.positive_weight))
            optimizer.step()
            updates += 1
            bar.add(1)
    return classifier, updates


def fresh_classifier(dim: int, occurrences: Int[np.ndarray, " target_vocab"], pairs: int) -> nn.Linear:
    """A classifier that knows nothing of the source: each word's odds are those of its frequency."""
    classifier = nn.Linear(dim, len(occurrences))
    shares = torch.from_numpy((occurrences + 0.5) / (pairs + 1.0)).clamp(max=0.99).float()
    with torch.no_grad():
        classifier.weight.zero_()
        classifier.bias.copy_(torch.logit(shares))
    return classifier


def occurrence_loss(classifier: nn.Linear, model: Transformer, batch: Batch, positive_weight: float) -> Tensor:
    """The mean over sentences of the cross-entropy of which words occur, summed over words."""
    with torch.no_grad():
        memory = model.encode(batch.source, batch.source_mask)
        pooled = pooled_states(EncodedSource(batch.source, batch.source_mask, memory))
    occurs = occurring_words(batch, classifier.out_features)
    loss = F.binary_cross_entropy_with_logits(
        classifier(pooled), occurs, pos_weight=torch.tensor(positive_weight), reduction="sum"
    )
    return loss / len(occurs)


def occurring_words(batch: Batch, vocab: int) -> Float[Tensor, "sentence vocab"]:
    """1 where a word occurs in the target of a sentence."""
    occurs = torch.zeros(len(batch.targets), vocab)
    sentences, places = batch.target_mask.nonzero(as_tuple=True)
    occurs[sentences, batch.targets[sentences, places]] = 1.0
    return occurs


def piece_counts(pairs: TokenPairs, vocab: int, *, seed: int) -> Int[np.ndarray, " target_vocab"]:
    """How often each target piece occurs in the pairs, or in as many as are counted."""
    numbers = np.arange(len(pairs))
    if len(pairs) > PAIRS_COUNTED:
        numbers = np.sort(np.random.default_rng(seed).choice(len(pairs), size=PAIRS_COUNTED, replace=False))
    counts: Int[np.ndarray, " target_vocab"] = np.bincount(gathered(pairs.target_side, numbers)[0], minlength=vocab)
    return counts
