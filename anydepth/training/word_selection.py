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
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, usable_data
from anydepth.runs.word_selections import LearnedWordsRecipe, save_learned
from anydepth.text.batches import BatchStream, Position, make_source
from anydepth.text.tokens import TokenPairs
from anydepth.vocabulary.alignment import gathered
from anydepth.vocabulary.learned_selection import pooled_states
from anydepth.vocabulary.standing_words import always_words

MOST_NUMBERS = 2**26  # of pooled states, which are kept in memory
SMALLEST_SCALE = 1e-3  # of a dimension that hardly differs between sentences


@dataclass(frozen=True, kw_only=True)
class SelectionTraining:
    """How a learned selection is trained.

    A word that occurs counts `positive_weight` times as much as one that does not: a word that is
    missed spoils the translation, one too many costs a little time (Domhan et al., 2022).
    """

    updates: int = 2000
    minutes: float = 10.0  # half of them for the encoder
    sentences: int = 256  # of an update
    positive_weight: float = 10.0
    learning_rate: float = 0.1
    batch_tokens: int = 4096  # that are encoded together
    frequent: int = 100
    seed: int = 1


@dataclass(frozen=True, eq=False)
class PooledStates:
    """The encoder's pooled states of some pairs, computed once because the encoder stays as it is,
    and the words of their targets."""

    numbers: Int[np.ndarray, " pair"]
    states: Float[Tensor, "pair encoder_dim"]
    words: Int[np.ndarray, " word"]
    starts: Int[np.ndarray, " pair_and_end"]  # where the words of each pair begin

    @classmethod
    @torch.inference_mode()
    def of(cls, model: Transformer, pairs: TokenPairs, settings: SelectionTraining, say: Say) -> "PooledStates":
        """Those of all pairs, or of as many as memory and half of the time allow, in the order of a
        training with that seed."""
        most = min(len(pairs), max(1, MOST_NUMBERS // model.config.encoder.dim))
        stream = BatchStream(pairs, max_tokens=settings.batch_tokens, seed=settings.seed)
        started, numbers, states, seen = time.monotonic(), [], [], 0
        with ProgressBar(most, "sentences encoded", say) as bar:
            for indices, _ in stream.from_position(Position()):
                source, mask = make_source([pairs.source(int(number))[: model.config.max_length] for number in indices])
                states.append(pooled_states(EncodedSource(source, mask, model.encode(source, mask))))
                numbers.append(indices)
                seen += len(indices)
                bar.add(min(len(indices), most - (seen - len(indices))))
                if seen >= most or time.monotonic() - started > 30 * settings.minutes:
                    break
        chosen = np.concatenate(numbers)[:most]
        words, lengths = gathered(pairs.target_side, chosen)
        return cls(chosen, torch.cat(states)[:most].clone(), words, np.concatenate([[0], lengths.cumsum()]))

    def occurring(self, rows: Int[Tensor, " sentence"], vocab: int) -> Float[Tensor, "sentence vocab"]:
        """1 where a word occurs in the target of one of these pairs, 0 elsewhere."""
        occurs = torch.zeros(len(rows), vocab)
        for place, row in enumerate(rows.tolist()):
            words = self.words[self.starts[row] : self.starts[row + 1]]
            occurs[place, torch.from_numpy(words).long()] = 1.0
        return occurs


def train_selection(
    run: Run, settings: SelectionTraining, *, data_folder: Path | None = None, say: Say
) -> LearnedWordsRecipe:
    """Trains the learned selection of the run on its training text, or on prepared text in its
    vocabulary, and stores it."""
    data, model = usable_data(run, data_folder, use="--data"), load_model(run)
    source, target = run.tokenizers()
    pairs = data.pairs("train")
    most = f"at most {settings.updates:,} updates or {settings.minutes:g} minutes"
    states = PooledStates.of(model, pairs, settings, say)
    say(f"training a word selection on {len(states.numbers):,} of {len(pairs):,} pairs, {most}")
    occurrences = np.bincount(states.words, minlength=target.size)
    weight, bias, updates = trained_classifier(states, occurrences, settings, say)
    recipe = LearnedWordsRecipe(
        source_tokenizer=source.fingerprint,
        target_tokenizer=target.fingerprint,
        data=data.fingerprint,
        pairs=len(states.numbers),
        frequent=settings.frequent,
        seed=settings.seed,
        weights=weights_fingerprint(run),
        updates=updates,
        positive_weight=settings.positive_weight,
        learning_rate=settings.learning_rate,
    )
    always = always_words(target, occurrences, frequent=settings.frequent)
    save_learned(run, weight, bias, always, recipe)
    return recipe


def trained_classifier(
    states: PooledStates, occurrences: Int[np.ndarray, " target_vocab"], settings: SelectionTraining, say: Say
) -> tuple[Float[Tensor, "target_vocab encoder_dim"], Float[Tensor, " target_vocab"], int]:
    """Weight and bias of the classifier after all updates, or as many as there was time for, and
    their number; the learning rate falls to 0 in a straight line."""
    mean, scale = states.states.mean(dim=0), states.states.std(dim=0, correction=0).clamp(min=SMALLEST_SCALE)
    classifier = fresh_classifier(len(mean), occurrences, len(states.states))
    optimizer = torch.optim.Adam(classifier.parameters())
    generator = torch.Generator().manual_seed(settings.seed)
    started, updates, spent = time.monotonic(), 0, 0.0
    with ProgressBar(settings.updates, "updates", say) as bar:
        while updates < settings.updates and (spent < 1 or updates == 0):
            rows = torch.randint(len(states.states), (settings.sentences,), generator=generator)
            optimizer.param_groups[0]["lr"] = settings.learning_rate * max(1 - spent, 0.0)
            optimizer.zero_grad()
            logits = classifier((states.states[rows] - mean) / scale)
            torch.autograd.backward(occurrence_loss(logits, states.occurring(rows, len(occurrences)), settings))
            optimizer.step()
            updates += 1
            spent = max(updates / settings.updates, (time.monotonic() - started) / (30 * settings.minutes))
            bar.add(1)
    weight = classifier.weight.detach() / scale
    return weight, classifier.bias.detach() - weight @ mean, updates


def fresh_classifier(dim: int, occurrences: Int[np.ndarray, " target_vocab"], sentences: int) -> nn.Linear:
    """A classifier that knows nothing of the source: each word's odds are those of its frequency."""
    classifier = nn.Linear(dim, len(occurrences))
    shares = torch.from_numpy((occurrences + 0.5) / (sentences + 1.0)).clamp(max=0.99).float()
    with torch.no_grad():
        classifier.weight.zero_()
        classifier.bias.copy_(torch.logit(shares))
    return classifier


def occurrence_loss(
    logits: Float[Tensor, "sentence vocab"], occurs: Float[Tensor, "sentence vocab"], settings: SelectionTraining
) -> Float[Tensor, ""]:
    """The cross-entropy of which words occur, summed over words, as a mean over sentences."""
    loss = F.binary_cross_entropy_with_logits(
        logits, occurs, pos_weight=torch.tensor(settings.positive_weight), reduction="sum"
    )
    return loss / len(logits)
