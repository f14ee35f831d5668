"""One cell of a benchmark, a batch size and a beam: what every contestant translates, how fast, and
how it compares."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anydepth.bench.contestants import (
    CTRANSLATE2,
    Contestant,
    ContestantOutput,
    CTranslate2Contestant,
)
from anydepth.bench.phases import PhaseShares, phase_shares
from anydepth.clock.calls import Call
from anydepth.clock.rounds import (
    Clock,
    Spread,
    Turn,
    Work,
    decoding_rates,
    decoding_speedup,
    interleave,
    latency,
    rates,
    speedup,
    timed,
)
from anydepth.evaluation.bleu import score_texts
from anydepth.exits.flops import sentence_flops
from anydepth.messages.say import Say
from anydepth.search.decoding import SearchSettings
from anydepth.vocabulary.names import FULL


@dataclass(frozen=True)
class Material:
    """What is translated: sentences as tokens without EOS, and for real text what turns outputs
    into BLEU."""

    sentences: list[list[int]]
    settings: SearchSettings
    references: list[str] | None = None
    detokenize: Callable[[list[int]], str] | None = None


@dataclass(frozen=True)
class Flops:
    """FLOPs of the decoder: for whole translations, and of these what one output token of each
    sentence takes."""

    whole: int
    first: int

    @property
    def decoding(self) -> int:
        """What falls into the time of decoding alone."""
        return self.whole - self.first


@dataclass(frozen=True)
class CellFacts:
    """What a contestant's translations show without a clock."""

    tokens: int
    average_exit: float
    exit_counts: list[int]
    bleu: float | None
    formula: Flops
    executed: Flops | None
    mean_words: float | None = None  # that a sentence chose among; None: not known


@dataclass(frozen=True)
class Result:
    """The figures of one contestant in one cell.

    `ratio` compares tokens/s with CTranslate2's in the same precision and `own_speedup` with
    the same engine at full depth, both round by round. Decoding alone is the time of the whole
    without that of one output token for each of the same sentences, which has the encoder in it;
    its tokens are those after the first. `efficiency` is the speedup of decoding over the ratio of
    its FLOPs.
    """

    system: str
    precision: str
    policy: str
    is_full_depth: bool
    batch: int
    beam: int
    threads: str
    sentences: int
    tokens: int
    average_exit: float
    exit_counts: list[int]
    bleu: float | None
    formula_mflops_per_token: float
    executed_mflops_per_token: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    tokens_per_second: Spread
    sentences_per_second: Spread
    decoding_tokens_per_second: Spread | None
    ratio: Spread | None
    decoding_ratio: Spread | None
    own_speedup: Spread | None
    own_decoding_speedup: Spread | None
    decoding_flops_ratio: float | None
    efficiency: Spread | None
    seconds: list[float]
    first_seconds: list[float]
    model: str = ""  # the run whose model it is; empty if there is but one
    vocabulary: str = FULL
    mean_words: float | None = None  # that a sentence chose among; None: not known
    phases: PhaseShares | None = None  # None: not asked for, or not told

    @property
    def contestant(self) -> tuple[str, str]:
        """The model and the policy, whoever runs it."""
        return self.model, self.policy


def run_cell(
    contestants: Sequence[Contestant | Sequence[CTranslate2Contestant]],
    material: Material,
    *,
    batch: int,
    rounds: int,
    clock: Clock,
    say: Say,
    has_phases: bool = False,
) -> list[Result]:
    """The figures of all contestants with this batch size and the beam of `material`; of a group
    the fastest alone takes part."""
    cell = f"batch {batch}, beam {material.settings.beam}"
    say(f"{cell}: translating once, without the clock")
    chosen = [each if isinstance(each, Contestant) else fastest(each, material, batch, clock) for each in contestants]
    works = [make_work(contestant, material, batch) for contestant in chosen]
    facts = [look(contestant, work, material) for contestant, work in zip(chosen, works, strict=True)]
    turns = interleave(
        works, rounds=rounds, clock=clock, tell=lambda number: say(f"{cell}: round {number} of {rounds}")
    )
    results = [compare(place, chosen, facts, turns, material, batch) for place in range(len(chosen))]
    if not has_phases:
        return results
    say(f"{cell}: once more {rounds} rounds, for the phases")
    shares = phase_shares(chosen, works, rounds=rounds)
    return [replace(result, phases=own) for result, own in zip(results, shares, strict=True)]


def fastest(
    variants: Sequence[CTranslate2Contestant], material: Material, batch: int, clock: Clock
) -> CTranslate2Contestant:
    """The variant that is done first, after each has warmed up."""
    if len(variants) == 1:
        return variants[0]
    seconds = []
    for variant in variants:
        calls = variant.calls(material.sentences, material.settings, batch=batch)
        timed(calls, clock)
        seconds.append(sum(timed(calls, clock)))
    return variants[seconds.index(min(seconds))]


def make_work(contestant: Contestant, material: Material, batch: int) -> Work:
    """The calls of a contestant's turn."""
    one = replace(material.settings, exact_length=1)
    return Work(*(contestant.calls(material.sentences, settings, batch=batch) for settings in (material.settings, one)))


def look(contestant: Contestant, work: Work, material: Material) -> CellFacts:
    """What the contestant's translations are, and what they cost."""
    (outputs, whole), (_, first) = (
        translate(contestant, calls, len(material.sentences)) for calls in (work.whole, work.first)
    )
    exits = [left for output in outputs for left in output.exits]
    texts = [material.detokenize(output.tokens) for output in outputs] if material.detokenize else None
    return CellFacts(
        tokens=len(exits),
        average_exit=sum(exits) / len(exits),
        exit_counts=[exits.count(n) for n in range(1, contestant.shape.blocks + 1)],
        bleu=score_texts(texts, material.references).bleu.value if texts and material.references else None,
        formula=Flops(*(formula_flops(contestant, outputs, material, length=length) for length in (None, 1))),
        executed=Flops(whole, first) if whole is not None and first is not None else None,
        mean_words=mean_words(contestant, outputs),
    )


def mean_words(contestant: Contestant, outputs: Sequence[ContestantOutput]) -> float | None:
    """How many words a sentence could choose among, on average; None where that is not known."""
    if contestant.vocabulary == FULL:
        return contestant.shape.vocab
    known = [output.words for output in outputs if output.words is not None]
    return sum(known) / len(known) if known else None


def translate(contestant: Contestant, calls: Sequence[Call], count: int) -> tuple[list[ContestantOutput], int | None]:
    """The outputs in the order of sentences, and the FLOPs that the decoder executed, where they
    can be counted."""
    outputs: list[ContestantOutput] = [ContestantOutput([], [])] * count
    before = contestant.executed_flops()
    for call in calls:
        for number, result in zip(call.numbers, call.run(), strict=True):
            outputs[number] = contestant.read(result)
    after = contestant.executed_flops()
    return outputs, None if before is None or after is None else after - before


def formula_flops(
    contestant: Contestant, outputs: Sequence[ContestantOutput], material: Material, *, length: int | None
) -> int:
    """What the first `length` tokens of the outputs cost by appendix B."""
    shape = contestant.shape
    return sum(
        contestant.selection_flops
        + sentence_flops(
            replace(shape, vocab=output.words or shape.vocab), output.exits[:length], len(ids) + 1, contestant.cost
        )
        for output, ids in zip(outputs, material.sentences, strict=True)
    )


def compare(
    place: int,
    contestants: Sequence[Contestant],
    facts: Sequence[CellFacts],
    turns: Sequence[Sequence[Turn]],
    material: Material,
    batch: int,
) -> Result:
    """The figures of the contestant at `place` beside those of its rivals."""
    mine, fact, own, count = contestants[place], facts[place], turns[place], len(material.sentences)
    rival = find(contestants, lambda each: each.system == CTRANSLATE2 and each.precision == mine.precision)
    own_kind = (mine.system, mine.precision, mine.model_name, True)
    full = find(
        contestants,
        lambda each: (each.system, each.precision, each.model_name, each.is_full_depth) == own_kind,
    )
    full = None if full == place else full
    later = fact.tokens - count
    flops_ratio = None if full is None else decoding_flops_ratio(facts[full], fact)
    time_ratio = None if full is None else decoding_speedup(own, turns[full], count=1, rival_count=1)
    return Result(
        system=mine.system,
        model=mine.model_name,
        precision=mine.precision,
        policy=mine.policy_name,
        vocabulary=mine.vocabulary,
        is_full_depth=mine.is_full_depth,
        batch=batch,
        beam=material.settings.beam,
        threads=f"{mine.inter_threads}x{mine.intra_threads}" if isinstance(mine, CTranslate2Contestant) else "",
        sentences=count,
        tokens=fact.tokens,
        average_exit=fact.average_exit,
        exit_counts=fact.exit_counts,
        bleu=fact.bleu,
        mean_words=fact.mean_words,
        formula_mflops_per_token=fact.formula.whole / fact.tokens / 1e6,
        executed_mflops_per_token=None if fact.executed is None else fact.executed.whole / fact.tokens / 1e6,
        latency_p50_ms=latency(own, 0.5) if batch == 1 else None,
        latency_p95_ms=latency(own, 0.95) if batch == 1 else None,
        tokens_per_second=rates(own, fact.tokens),
        sentences_per_second=rates(own, count),
        decoding_tokens_per_second=decoding_rates(own, later),
        ratio=None if rival is None else speedup(own, turns[rival], count=fact.tokens, rival_count=facts[rival].tokens),
        decoding_ratio=None
        if rival is None
        else decoding_speedup(own, turns[rival], count=later, rival_count=facts[rival].tokens - count),
        own_speedup=None
        if full is None
        else speedup(own, turns[full], count=fact.tokens, rival_count=facts[full].tokens),
        own_decoding_speedup=None
        if full is None
        else decoding_speedup(own, turns[full], count=later, rival_count=facts[full].tokens - count),
        decoding_flops_ratio=flops_ratio,
        efficiency=None
        if flops_ratio is None or time_ratio is None
        else Spread(time_ratio.median / flops_ratio, time_ratio.low / flops_ratio, time_ratio.high / flops_ratio),
        seconds=[turn.seconds for turn in own],
        first_seconds=[sum(turn.first) for turn in own],
    )


def find(contestants: Sequence[Contestant], is_it: Callable[[Contestant], bool]) -> int | None:
    """The place of the first contestant that `is_it`."""
    return next((place for place, each in enumerate(contestants) if is_it(each)), None)


def decoding_flops_ratio(full: CellFacts, fact: CellFacts) -> float | None:
    """How many times the FLOPs full depth has in decoding alone: executed ones, or those of the
    formula where these are not counted."""
    mine, other = (fact.executed, full.executed) if fact.executed and full.executed else (fact.formula, full.formula)
    return other.decoding / mine.decoding if mine.decoding > 0 and other.decoding > 0 else None
