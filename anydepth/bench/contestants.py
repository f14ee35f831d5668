"""Who takes part in a benchmark: our engines with a policy, and CTranslate2 at full depth."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from anydepth.clock.calls import Call, search_call, search_calls
from anydepth.exits.flops import DecisionCost, DecoderShape, no_decision
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.policies import ForcedExits, Policy
from anydepth.inference.engines.engine import Engine
from anydepth.inference.export.ctranslate2_folder import load_ctranslate2, search_options
from anydepth.search.decoding import SearchSettings
from anydepth.vocabulary.names import FULL
from anydepth.vocabulary.selection import WordSelection

PRECISIONS = ("fp32", "int8")
CTRANSLATE2 = "ctranslate2"
VOCABULARY_MAP = "map"  # the same table as CTranslate2 knows it
COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}

Sentences = Sequence[Sequence[int]]


@dataclass(frozen=True)
class ContestantOutput:
    """The tokens of one translation, EOS included, and where each of them left the decoder."""

    tokens: list[int]
    exits: list[int]
    words: int | None = None  # how many words the sentence chose among; None: all, or not known


@runtime_checkable
class Contestant(Protocol):
    """Translates sentences in its own way. Making calls and reading their results are not timed;
    running them is."""

    @property
    def system(self) -> str:
        """The program, such as "torch" or "ctranslate2"."""

    @property
    def precision(self) -> str:
        """fp32 or int8."""

    @property
    def model_name(self) -> str:
        """The run whose model it has; empty if there is but one."""

    @property
    def vocabulary(self) -> str:
        """How the words of a sentence are chosen, in the words of a recipe."""

    @property
    def selection_flops(self) -> int:
        """What choosing the words of a sentence costs."""

    @property
    def shape(self) -> DecoderShape:
        """The sizes of its decoder."""

    @property
    def policy_name(self) -> str:
        """Where tokens leave, in the words of a recipe."""

    @property
    def is_full_depth(self) -> bool:
        """Whether every token goes through every block."""

    @property
    def cost(self) -> DecisionCost:
        """What its decisions cost by appendix B."""

    def calls(self, sentences: Sentences, settings: SearchSettings, *, batch: int) -> list[Call]:
        """One call per sentence for a batch of 1, else as few as serve the contestant best."""

    def read(self, result: Any) -> ContestantOutput:
        """The translation in one of a call's results."""

    def executed_flops(self) -> int | None:
        """FLOPs that its decoder has executed so far; None where they are not counted."""


@dataclass(frozen=True)
class OwnContestant:
    """One of our engines with a policy; it gets all sentences at once and makes batches of its
    own."""

    system: str
    engine: Engine
    precision: str
    policy: Policy
    is_full_depth: bool
    words: WordSelection | None = field(default=None, kw_only=True)
    model_name: str = field(default="", kw_only=True)

    @property
    def vocabulary(self) -> str:
        """The selection's name."""
        return FULL if self.words is None else self.words.name

    @property
    def selection_flops(self) -> int:
        """The selection's."""
        return 0 if self.words is None else self.words.flops()

    @property
    def shape(self) -> DecoderShape:
        """The sizes of the engine's model."""
        model = self.engine.model
        return DecoderShape.of(model.config, model.target_embedding.num_embeddings)

    @property
    def policy_name(self) -> str:
        """The policy's name, with the words that it chooses from where these are not all."""
        return self.policy.name if self.words is None else f"{self.policy.name} {self.words.name}"

    @property
    def cost(self) -> DecisionCost:
        """The policy's cost."""
        return self.policy.cost

    def calls(self, sentences: Sentences, settings: SearchSettings, *, batch: int) -> list[Call]:
        """One search for all, or one per sentence."""
        return search_calls(self.engine, sentences, self.policy, replace(settings, words=self.words), batch=batch)

    def read(self, result: Any) -> ContestantOutput:
        """The best hypothesis."""
        return ContestantOutput(result[0].tokens, result[0].exits, result[0].words)

    def executed_flops(self) -> int | None:
        """What the engine has counted."""
        return self.engine.executed_flops()


@dataclass(frozen=True)
class ForcedContestant(OwnContestant):
    """One of our engines whose exits are given for each sentence, so that it gets the sentences
    batch by batch."""

    table: Int[Tensor, "sentence time"]
    halting: GeometricHalting | None

    def calls(self, sentences: Sentences, settings: SearchSettings, *, batch: int) -> list[Call]:
        """One search a batch, with the exits of its sentences."""
        groups = [range(start, min(start + batch, len(sentences))) for start in range(0, len(sentences), batch)]
        policies = [
            ForcedExits(self.table[group.start : group.stop], self.halting, self.policy.blocks) for group in groups
        ]
        return [
            search_call(self.engine, sentences, group, policy, replace(settings, words=self.words), batch=batch)
            for group, policy in zip(groups, policies, strict=True)
        ]


@dataclass(frozen=True)
class CTranslate2Contestant:
    """CTranslate2 at full depth; it takes tokens as text and gives text back, which is looked up
    outside of the timed part."""

    translator: Any
    precision: str
    shape: DecoderShape
    source_pieces: Sequence[str]
    target_ids: dict[str, int]
    max_length: int
    inter_threads: int = 1
    intra_threads: int = 1
    system: str = CTRANSLATE2
    is_full_depth: bool = True
    has_map: bool = False  # whether it is to use the vocabulary map in its folder
    model_name: str = ""
    selection_flops: int = 0
    source_end: str | None = None  # where a model does not add the end of the source itself

    @property
    def vocabulary(self) -> str:
        """Whether there is a map."""
        return VOCABULARY_MAP if self.has_map else FULL

    @property
    def policy_name(self) -> str:
        """All blocks for every token."""
        return f"fixed:{self.shape.blocks}"

    @property
    def cost(self) -> DecisionCost:
        """The output projection alone."""
        return no_decision

    def calls(self, sentences: Sentences, settings: SearchSettings, *, batch: int) -> list[Call]:
        """One call per sentence, or one for all: similar lengths together, as CTranslate2 itself
        does, and the batches queued together.

        Each batch has the limit of its longest source. A limit for all, which is what CTranslate2
        has to offer, would let a translation that never ends go on for longer than ours.
        """
        order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
        pieces = [[self.source_pieces[token] for token in ids] for ids in sentences]
        if batch == 1:
            return [self._call([[number]], pieces, settings) for number in range(len(sentences))]
        return [self._call([order[start : start + batch] for start in range(0, len(order), batch)], pieces, settings)]

    def read(self, result: Any) -> ContestantOutput:
        """The best hypothesis, every token of which went through all blocks."""
        tokens = [self.target_ids[piece] for piece in result.hypotheses[0]]
        return ContestantOutput(tokens, [self.shape.blocks] * len(tokens))

    def executed_flops(self) -> None:
        """Nothing is counted."""
        return None

    def _call(
        self, batches: Sequence[Sequence[int]], pieces: Sequence[Sequence[str]], settings: SearchSettings
    ) -> Call:
        end = [] if self.source_end is None else [self.source_end]
        work = [
            ([[*pieces[number], *end] for number in numbers], self._options(numbers, pieces, settings))
            for numbers in batches
        ]
        translate = self.translator.translate_batch

        def run() -> Sequence[Any]:
            if len(work) == 1:
                return list(translate(work[0][0], **work[0][1]))
            waiting = [job for chosen, options in work for job in translate(chosen, asynchronous=True, **options)]
            return [job.result() for job in waiting]

        return Call([number for numbers in batches for number in numbers], run)

    def _options(
        self, numbers: Sequence[int], pieces: Sequence[Sequence[str]], settings: SearchSettings
    ) -> dict[str, Any]:
        longest = torch.ones(1, 1 + max(len(pieces[number]) for number in numbers), dtype=torch.bool)
        options = search_options(settings, limit=int(settings.limits(longest, max_length=self.max_length)))
        return {**options, "use_vmap": True} if self.has_map else options


def load_rivals(
    folder: Path,
    *,
    precision: str,
    shape: DecoderShape,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    max_length: int,
    threads: int,
    has_map: bool = False,
    model_name: str = "",
    source_end: str | None = None,
) -> list[CTranslate2Contestant]:
    """CTranslate2 with the model in `folder`: all threads in one translation and, where there are
    several, one in each of several."""
    ids = {piece: number for number, piece in enumerate(target_pieces)}
    return [
        CTranslate2Contestant(
            load_ctranslate2().Translator(
                str(folder),
                device="cpu",
                compute_type=COMPUTE_TYPES[precision],
                inter_threads=inter,
                intra_threads=intra,
            ),
            precision,
            shape,
            source_pieces,
            ids,
            max_length,
            inter,
            intra,
            has_map=has_map,
            model_name=model_name,
            source_end=source_end,
        )
        for inter, intra in dict.fromkeys([(1, threads), (threads, 1)])
    ]
