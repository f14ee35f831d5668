"""The compiled engine behind the same contract as the plain step: same tokens, same exits, less
time."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from anydepth.config.model_settings import Activation
from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, Halting, MultinomialHalting, SequenceHalting
from anydepth.exits.policies import (
    FixedExit,
    ForcedExits,
    MultinomialExit,
    Policy,
    SequenceExit,
    UniformExit,
)
from anydepth.exits.thresholds import ThresholdExit
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.found import read_hypotheses
from anydepth.inference.engines.native.native_open_search import NativeOpenSearch, NativeRequest
from anydepth.inference.engines.open_search import OpenSearch
from anydepth.model.checkpoint import model_tensors, not_finite
from anydepth.model.source import EncodedSource
from anydepth.model.transformer import sinusoids
from anydepth.runs.run import Run
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import BOS, EOS
from anydepth.vocabulary.learned_selection import LearnedSelection
from anydepth.vocabulary.lexical_table import StandingWords, TableSelection
from anydepth.vocabulary.selection import WordSelection

try:
    from anydepth.inference.engines.native import _native
except ImportError as error:  # there was no compiler when anydepth was installed
    _native, why_not = None, str(error)  # type: ignore[assignment]

MOST_BLOCKS = 64
MOST_SELECTIONS = 8  # of words, kept for the next search
SENTENCES = 32  # searched together where neither the user nor the budget of tokens says less


class NativeEngine(Engine):
    """Search in C++ with the weights that a model has now, in float32 or with 8-bit products.

    Each row passes only the blocks that it needs; keys and values of a copied state are made when a
    later token first looks at them; a finished sentence's place is taken by the next.
    """

    def __init__(
        self,
        model: AdaptiveTransformer,
        *,
        int8: bool = False,
        threads: int = 1,
        instructions: str = "",
        is_deferred: bool = True,
    ) -> None:
        require_native()
        if model.blocks > MOST_BLOCKS:
            raise UsageError(
                f"the native engine knows up to {MOST_BLOCKS} decoder blocks and this model has {model.blocks}; use "
                "--engine torch"
            )
        super().__init__(model, name="native-int8" if int8 else "native")
        self.threads = threads
        self.is_deferred = is_deferred
        shape, vocab = model.config, model.target_embedding.num_embeddings
        units = model.halting.units if isinstance(model.halting, GeometricHalting) else 0
        self.engine = _native.Engine(
            shape=_native.Shape(
                encoder_heads=shape.encoder_heads,
                decoder_heads=shape.heads,
                encoder_dim=shape.encoder.dim,
                encoder_ffn=shape.encoder.ffn_dim,
                decoder_dim=shape.decoder.dim,
                decoder_ffn=shape.decoder.ffn_dim,
                encoder_blocks=shape.encoder.blocks,
                blocks=shape.blocks,
                target_vocab=vocab,
                activation=native_activation(shape.activation),
                has_scaled_embeddings=shape.scale_embeddings,
                has_output_bias=shape.output_bias,
                adapter=shape.exit_adapter,
                attends_first=shape.attends_first,
                key_blocks=shape.key_blocks,
            ),
            tensors=named_arrays(model),
            classifiers=classifier_names(model),
            halting=halting_name(model.halting),
            halting_units=units,
            is_int8=int8,
            instructions=instructions,
        )
        # those used last, as C++ knows them; each is kept with its object, so that no other has its id
        self.selections: dict[int, tuple[WordSelection, _native.Selection]] = {}
        self.lock = threading.Lock()  # of the selections and the FLOPs, which open searches share
        self.flops = 0
        self.seconds: Counter[str] = Counter()  # by phase
        self.counts: _native.Counts | None = None  # of the last search

    @classmethod
    def make(cls, model: AdaptiveTransformer, *, int8: bool, threads: int | None, run: Run | None) -> Engine:
        """The engine with the weights that `model` has now."""
        return cls(model, int8=int8, threads=threads or torch.get_num_threads())

    @classmethod
    def is_at_hand(cls, *, int8: bool, blocks: int, run: Run | None) -> bool:
        """Whether it was built and can count the blocks."""
        return has_native() and blocks <= MOST_BLOCKS

    def supports(self, policy: Policy) -> str | None:
        """Why the compiled search cannot follow `policy` on this model, if it cannot."""
        model = self.model
        if policy.blocks > model.blocks:
            return f"{policy.name} is for a model of {policy.blocks} blocks and this one has {model.blocks}"
        if model.config.exits == "last" and policy.name != f"fixed:{model.blocks}":
            return f"this model has exit {model.blocks} only, which {policy.name} is not"
        match policy:
            case FixedExit() | UniformExit():
                return None
            case SequenceExit() | MultinomialExit() | ForcedExits() | ThresholdExit():
                if policy.halting not in (None, model.halting):
                    return f"{policy.name} asks the halting module of another model"
            case _:
                return f"it does not know policies such as {policy.name}"
        if isinstance(policy, ThresholdExit):
            if policy.blocks != model.blocks:
                return f"{policy.name} has thresholds for {policy.blocks} blocks and this model has {model.blocks}"
            if threshold_rule(policy.family) is None:
                return f"it does not know the signal of {policy.family}"
        return None

    def supports_words(self, words: WordSelection) -> str | None:
        """Why the compiled search cannot choose the words of a sentence by `words`, if it cannot."""
        return None if isinstance(words, TableSelection | LearnedSelection) else f"it does not know {words.name}"

    def native_selection(self, words: WordSelection | None) -> "_native.Selection | None":
        """The selection as the compiled search knows it, kept for the next search."""
        if words is None:
            return None
        with self.lock:
            if id(words) not in self.selections:
                if len(self.selections) == MOST_SELECTIONS:
                    self.selections.pop(next(iter(self.selections)))
                self.selections[id(words)] = words, make_selection(self.engine, words)
            return self.selections[id(words)][1]

    def executed_flops(self) -> int:
        """FLOPs that the decoder has executed in all searches so far, those of every hypothesis of
        the beam and of deferred copies; an open search counts when it has ended."""
        return self.flops

    def note_counts(self, counts: "_native.Counts") -> None:
        """Adds what a search has done."""
        with self.lock:
            self.flops += counts.decoder_flops
            self.seconds.update(counts.seconds)

    def phase_seconds(self) -> dict[str, float] | None:
        """The seconds that all searches so far have spent in each phase, those of all threads."""
        return dict(self.seconds)

    def own_search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence; both limits of a batch hold for each thread."""
        limits = [self.checked_limit(ids, settings) for ids in sequences]
        found, counts = self.engine.search(
            [[*ids, EOS] for ids in sequences],
            limits,
            native_policy(policy, sequences, limit=max(limits)),
            native_settings(settings),
            self.batching(settings.batch_tokens, settings.batch_sentences),
            self.native_selection(settings.words),
        )
        self.note_counts(counts)
        self.counts = counts
        return [read_hypotheses(hypotheses, is_selective=settings.words is not None) for hypotheses in found]

    def open_search(self, *, batch_tokens: int, batch_sentences: int | None = None) -> OpenSearch:
        """The compiled search with a worker for each thread; what it refuses is refused when it is
        submitted."""
        search = self.engine.open(self.batching(batch_tokens, batch_sentences))
        return NativeOpenSearch(search, self.request, self.note_counts)

    def request(self, ids: Sequence[int], policy: Policy, settings: SearchSettings) -> NativeRequest:
        """What the compiled search is given of one sentence; a policy or words that it does not know
        are refused with the reason."""
        if reason := self.reason_against(policy, settings):
            raise UsageError(f"the open search of the {self.name} engine cannot: {reason}; use Engine.search")
        limit = self.checked_limit(ids, settings)
        translated = native_policy(policy, [ids], limit=limit)
        return NativeRequest(
            [*ids, EOS], limit, translated, native_settings(settings), self.native_selection(settings.words)
        )

    def batching(self, tokens: int, sentences: int | None) -> "_native.Batching":
        """The limits of a batch, and who makes it."""
        return _native.Batching(
            sentences=sentences or SENTENCES, tokens=tokens, is_deferred=self.is_deferred, threads=self.threads
        )

    def own_search_every_exit(
        self, sequences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """The best hypothesis of each sentence at each exit: N copies of a sentence are encoded
        once."""
        blocks = self.model.blocks
        copies = [ids for ids in sequences for _ in range(blocks)]
        exits = torch.arange(1, blocks + 1).repeat(len(sequences))[:, None]
        # A block runs for about half of the copies, so this many of them make products of the size
        # that a search for one exit has.
        factor = max(1, blocks // 2)
        many = replace(
            settings,
            batch_tokens=factor * settings.batch_tokens,
            batch_sentences=factor * (settings.batch_sentences or SENTENCES),
        )
        found = self.search(copies, ForcedExits(exits, model_blocks=blocks), many)
        starts = range(0, len(found), blocks)
        return [[hypotheses[0] for hypotheses in found[start : start + blocks]] for start in starts]


def native_settings(settings: SearchSettings) -> "_native.Settings":
    """How wide to search and how to rank, for the compiled search."""
    return _native.Settings(
        beam=settings.beam,
        best=settings.best,
        length_penalty=settings.length_penalty,
        early_stopping=settings.early_stopping,
        banned=settings.never_produced,
        eos=EOS,
        bos=BOS,
    )


def make_selection(engine: "_native.Engine", words: WordSelection) -> "_native.Selection":
    """A selection of words for the compiled search; `NativeEngine.supports_words` must have nothing
    against it."""
    match words:
        case TableSelection():
            table = {"starts": words.cut.starts.tolist(), "words": words.cut.words.tolist()}
            return engine.selection(**native_standing(words.table.standing), **table)
        case LearnedSelection():
            weight, bias = (tensor.detach().float().contiguous().numpy() for tensor in (words.weight, words.bias))
            return engine.selection(
                **native_standing(words.standing), weight=weight, bias=bias, least_odds=words.least_odds
            )
    raise AssertionError(f"NativeEngine.supports_words let {words.name} pass")


def native_standing(standing: StandingWords) -> dict[str, Any]:
    """What the compiled search is given of the standing words."""
    return {
        "always": standing.always.tolist(),
        "copies": standing.copies.tolist(),
        "bytes": standing.bytes.tolist(),
        "is_spelled": np.isin(np.arange(len(standing.copies)), standing.byte_sources).tolist(),
    }


def has_native() -> bool:
    """Whether the compiled module was built."""
    return _native is not None


def require_native() -> None:
    """Refuses in one sentence where there is no compiled module."""
    if _native is None:
        raise UsageError(
            f"the native engine cannot be loaded ({why_not}); it is built when anydepth is installed, which takes a "
            "C++ compiler such as g++: install one and anydepth again, or use --engine onnx or --engine torch"
        )


def named_arrays(model: AdaptiveTransformer) -> dict[str, np.ndarray]:
    """The weights by their names in a checkpoint, both embeddings even where they are one, and the
    vectors of the positions."""
    length, shape = model.config.max_length + 1, model.config
    tensors = {**model_tensors(model), "source_embedding.weight": model.source_embedding.weight.detach()}
    if broken := not_finite(tensors):
        raise RunError(f"{broken} has numbers that are not finite; the training of this model went wrong")
    tensors = {name: tensor.to("cpu", torch.float32, copy=True).contiguous() for name, tensor in tensors.items()}
    tensors["encoder_positions"] = sinusoids(length, shape.encoder.dim, shape.positions)
    tensors["decoder_positions"] = sinusoids(length, shape.decoder.dim, shape.positions)
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def classifier_names(model: AdaptiveTransformer) -> list[str]:
    """The names of the output classifiers: one for all exits, or one for each."""
    if model.config.classifiers == "tied":
        return ["target_embedding.weight"]
    return [f"classifiers.{number}" for number in range(len(model.classifiers))]


def native_activation(name: Activation) -> "_native.Activation":
    """The activation of the feed-forward networks as the compiled model knows it."""
    match name:
        case "relu":
            return _native.Activation.relu
        case "gelu":
            return _native.Activation.gelu
        case "swish":
            return _native.Activation.swish


def halting_name(halting: Halting | None) -> str:
    """The halting module as the compiled model knows it."""
    match halting:
        case SequenceHalting():
            return "sequence"
        case MultinomialHalting():
            return "multinomial"
        case GeometricHalting():
            return "geometric"
        case None:
            return "none"


def threshold_rule(family: str) -> "_native.Rule | None":
    """The rule of the compiled search that has the signal of `family`, such as "confidence" or
    "shortlist:64", if there is one."""
    match family.partition(":")[0]:
        case "geometric":
            return _native.Rule.geometric
        case "confidence":
            return _native.Rule.confidence
        case "margin":
            return _native.Rule.margin
        case "similarity":
            return _native.Rule.similarity
        case "shortlist":
            return _native.Rule.shortlist
    return None


def native_policy(policy: Policy, sequences: Sequence[Sequence[int]], *, limit: int) -> "_native.Policy":
    """The policy as the compiled search knows it; `NativeEngine.supports` must have nothing against
    it."""
    match policy:
        case FixedExit():
            return _native.Policy(rule=_native.Rule.planned, plans=[[policy.n]] * len(sequences))
        case UniformExit():
            plans = policy.plan(unread_source(sequences), limit=limit).tolist()
            return _native.Policy(rule=_native.Rule.planned, plans=plans)
        case ForcedExits():
            plans = policy.plan(unread_source(sequences), limit=limit).tolist()
            return _native.Policy(rule=_native.Rule.planned, plans=plans, is_halting_watched=policy.halting is not None)
        case SequenceExit():
            return _native.Policy(rule=_native.Rule.sequence)
        case MultinomialExit():
            return _native.Policy(rule=_native.Rule.multinomial)
        case ThresholdExit():
            rule = threshold_rule(policy.family)
            assert rule is not None
            return _native.Policy(
                rule=rule, thresholds=policy.thresholds, shortlist=int(policy.family.partition(":")[2] or 0)
            )
    raise AssertionError(f"NativeEngine.supports let {policy.name} pass")


def unread_source(sequences: Sequence[Sequence[int]]) -> EncodedSource:
    """Sentences for a plan that does not look at the memory."""
    source, mask = make_source(sequences)
    return EncodedSource(source, mask, torch.empty(*source.shape, 0))
