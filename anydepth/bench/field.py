"""Who takes part in a benchmark: engines and precisions, other runs, and CTranslate2 with the same
models."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from anydepth.bench.contestants import (
    CTRANSLATE2,
    PRECISIONS,
    Contestant,
    CTranslate2Contestant,
    OwnContestant,
    load_rivals,
)
from anydepth.bench.original_model import TRANSFORMERS, OriginalModel, convert_original, load_contestant
from anydepth.errors import UsageError
from anydepth.evaluation.evaluate import ChosenPolicy
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecoderShape
from anydepth.exits.policies import Policy
from anydepth.files.atomic import write_text
from anydepth.inference.engines.choice import check_engine, make_engine
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.names import AUTOMATIC, enumerated
from anydepth.inference.export.ctranslate2_folder import check_export, write_checksums, write_ctranslate2
from anydepth.inference.export.vocabulary_map import MAP_NAME, vocabulary_map
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.run import Run
from anydepth.search.decoding import DecodingOptions
from anydepth.vocabulary.learned_selection import LearnedSelection
from anydepth.vocabulary.lexical_table import TableSelection
from anydepth.vocabulary.selection import WordSelection

RIVALS = (CTRANSLATE2, TRANSFORMERS)
Field = list[Contestant | Sequence[CTranslate2Contestant]]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Who takes part in a benchmark, and how it is run."""

    engines: tuple[str, ...] = ("torch",)
    precisions: tuple[str, ...] = PRECISIONS
    batches: tuple[int, ...] = (1, 8, 32)
    beams: tuple[int, ...] = (1, 5)
    rounds: int = 5
    threads: int = 1
    sentences: int | None = None
    seed: int = 1
    against: tuple[str, ...] = ()
    rival: Path | None = None  # the run whose model CTranslate2 takes, if not the same
    original: Path | None = None  # the folder that the run was adopted from, where it does not say so itself
    beside: tuple[Path, ...] = ()  # other runs that take part at full depth
    vocabulary: str | None = None  # how words are selected; None: as the check of the measured run chose
    has_phases: bool = False  # whether to tell where the time of the native engine goes

    def __post_init__(self) -> None:
        for engine in self.engines:
            check_engine(engine)
        self.check_rivals()
        if self.has_phases and not {"native", AUTOMATIC} & set(self.engines):
            options = " ".join(f"--engine {engine}" for engine in self.engines)
            raise UsageError(
                f"--phases tells where the time of the native engine goes, and {options} leaves it out; write --engine "
                "native, too"
            )
        named = {"--batch": self.batches, "--beam": self.beams}
        counts = {
            "--rounds": self.rounds,
            "--threads": self.threads,
            "--sentences": 1 if self.sentences is None else self.sentences,
        }
        for name, value in [*((name, each) for name, values in named.items() for each in values), *counts.items()]:
            if value < 1:
                raise UsageError(f"{name} {value} leaves nothing to measure; set it to 1 or more")

    def check_rivals(self) -> None:
        """Refuses rivals that are not known, and models for rivals that nobody asked for."""
        for name in self.against:
            if name not in RIVALS:
                raise UsageError(
                    f"--against {name}: a benchmark compares with {enumerated(RIVALS, 'and')}; write one of these"
                )
        if self.rival is not None and CTRANSLATE2 not in self.against:
            raise UsageError("--rival names the model that CTranslate2 takes; write --against ctranslate2, too")
        if self.rival is not None and self.beside:
            raise UsageError("--rival has CTranslate2 take one other model and --beside all; leave out one of them")
        if self.original is not None and not self.against:
            raise UsageError(
                "--original is the folder that others run; write --against ctranslate2 or --against transformers, too"
            )
        if self.original is not None and (self.rival is not None or self.beside):
            option = "--beside" if self.beside else "--rival"
            raise UsageError(f"--original and {option} name different models for CTranslate2; leave out one of them")
        if TRANSFORMERS in self.against and "fp32" not in self.precisions:
            raise UsageError("--against transformers takes part in float32 alone; leave out --int8, or it")


@dataclass(frozen=True)
class Entrant:
    """A model that takes part: its name, and its policies with the words that each chooses among,
    full depth first."""

    name: str
    translator: Translator
    searches: list[tuple[Policy, WordSelection | None]]


def entrants(
    folder: Path, translator: Translator, wanted: Sequence[ChosenPolicy], settings: BenchSettings
) -> list[Entrant]:
    """The run that is measured, at full depth with all words, with selected ones and with every
    wanted policy, then those that take part beside it, at full depth; their names are told apart
    only if there are several."""

    def words_of(entrant: Translator, vocabulary: WordSelection | str | None) -> WordSelection | None:
        """The words for the widest beam, which are then those of all beams."""
        return entrant.search_settings(DecodingOptions(beam=max(settings.beams), vocabulary=vocabulary)).words

    own = words_of(translator, settings.vocabulary)
    full = translator.policy(None)
    searches = [
        (full, None),
        (full, own),
        *((translator.policy(each.name), words_of(translator, each.vocabulary)) for each in wanted),
    ]
    distinct = {(policy.name, words and words.name): (policy, words) for policy, words in searches}
    found = [Entrant(folder.name if settings.beside else "", translator, list(distinct.values()))]
    for other in settings.beside:
        beside = Translator.load(other)
        check_vocabulary(translator, Run(other), option="--beside")
        # a table is of the vocabulary, which is the same, so that the same words help all models; what is learned
        # is of one encoder
        words = words_of(beside, settings.vocabulary) if isinstance(own, LearnedSelection) else own
        found.append(Entrant(other.name, beside, [(beside.policy(None), words)]))
    if len({entrant.name for entrant in found}) < len(found):
        raise UsageError("two of the runs have the same name; rename the folder of one, so that they can be told apart")
    return found


def own_contestants(entrant: Entrant, settings: BenchSettings, say: Say) -> Iterator[OwnContestant]:
    """Every policy of a model with every engine in every precision."""
    full = entrant.translator.policy(None).name
    for system, precision, engine in engines(entrant.translator.model, settings, entrant.translator.run, say):
        for policy, words in entrant.searches:
            is_full_depth = policy.name == full
            yield OwnContestant(system, engine, precision, policy, is_full_depth, words=words, model_name=entrant.name)


def engines(
    model: AdaptiveTransformer, settings: BenchSettings, run: Run | None, say: Say
) -> Iterator[tuple[str, str, Engine]]:
    """Every engine in every precision that it has; one that lacks a precision is reported, or
    refused if none was left."""
    found = 0
    refusals = []
    for precision in settings.precisions:
        for name in settings.engines:
            try:
                engine = make_engine(name, model, int8=precision == "int8", threads=settings.threads, run=run)
            except UsageError as error:
                refusals.append(error)
                continue
            found += 1
            yield name, precision, engine
    if not found:
        raise refusals[0]
    for refusal in refusals:
        say(f"left out: {refusal}")


def rival_model(translator: Translator, settings: BenchSettings) -> Translator:
    """The run whose model CTranslate2 takes: the translator's own, or another with the same
    vocabulary."""
    if settings.rival is None:
        return translator
    check_vocabulary(translator, Run(settings.rival), option="--rival")
    return Translator.load(settings.rival)


def check_vocabulary(translator: Translator, other: Run, *, option: str) -> None:
    """Refuses a run whose tokens are not those of `translator`."""
    own, others = (
        [tokenizer.pieces(range(tokenizer.size)) for tokenizer in tokenizers]
        for tokenizers in ((translator.source_tokenizer, translator.target_tokenizer), other.tokenizers())
    )
    if own != others:
        raise UsageError(
            f"{option} {other.folder} has another vocabulary; prepare its data with --tokenizer-from, and train "
            "it again"
        )


@dataclass(frozen=True)
class CTranslate2Entrant:
    """A model that CTranslate2 takes part with, the names of its tokens, and the table of words that
    it may use as a map, if there is one."""

    name: str
    model: AdaptiveTransformer
    source_pieces: Sequence[str]
    target_pieces: Sequence[str]
    table: TableSelection | None = None


@contextmanager
def rivals(entrants: Sequence[CTranslate2Entrant], settings: BenchSettings) -> Iterator[Field]:
    """CTranslate2 at full depth in every precision, if it was asked for: with all words, and with a
    vocabulary map where there is a table, from files that are removed."""
    if CTRANSLATE2 not in settings.against:
        yield []
        return
    field: Field = []
    with tempfile.TemporaryDirectory() as temporary:
        for number, (entrant, precision) in enumerate(
            (entrant, precision) for precision in settings.precisions for entrant in entrants
        ):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            write_rival(entrant, folder, precision)
            check_export(folder)
            for has_map in (False, True) if entrant.table is not None else (False,):
                field.append(
                    load_rivals(
                        folder,
                        precision=precision,
                        shape=DecoderShape.of(entrant.model.config, len(entrant.target_pieces)),
                        source_pieces=entrant.source_pieces,
                        target_pieces=entrant.target_pieces,
                        max_length=entrant.model.config.max_length,
                        threads=settings.threads,
                        has_map=has_map,
                        model_name=entrant.name,
                    )
                )
        yield field


@contextmanager
def original_rivals(
    original: OriginalModel | None, settings: BenchSettings, *, is_converted: bool, say: Say
) -> Iterator[Field]:
    """The folder that a run was adopted from, as its owner runs it: by CTranslate2's own conversion
    in every precision, from files that are removed, and by transformers in float32."""
    field: Field = []
    if original is None:
        yield field
        return
    with tempfile.TemporaryDirectory() as temporary:
        for precision in settings.precisions if is_converted else ():
            folder = Path(temporary) / precision
            convert_original(original, folder, precision=precision)
            field.append(
                load_rivals(
                    folder,
                    precision=precision,
                    shape=original.shape,
                    source_pieces=original.source.names,
                    target_pieces=original.target.names,
                    max_length=original.max_length,
                    threads=settings.threads,
                    source_end=original.source.pieces[original.source.end],
                )
            )
        if TRANSFORMERS in settings.against:
            if "int8" in settings.precisions:
                say("transformers takes part in fp32 alone: it has no 8-bit products on a CPU")
            field.append(load_contestant(original))
        yield field


def write_rival(entrant: CTranslate2Entrant, folder: Path, precision: str) -> None:
    """Writes the model at full depth for CTranslate2."""
    write_ctranslate2(
        entrant.model,
        entrant.source_pieces,
        entrant.target_pieces,
        folder,
        exit=entrant.model.blocks,
        quantization="int8" if precision == "int8" else None,
    )
    if entrant.table is not None:
        write_text(folder / MAP_NAME, vocabulary_map(entrant.table, entrant.source_pieces, entrant.target_pieces))
    write_checksums(folder, weights=None)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch with so many threads, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
