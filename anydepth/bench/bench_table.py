"""Benchmarks as text: a table for people, JSON for machines."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby

from anydepth.bench.bench_recipe import BenchRecipe
from anydepth.bench.benchmark import Bench
from anydepth.bench.cells import Result
from anydepth.bench.contestants import CTRANSLATE2
from anydepth.bench.phases import LOOK_PHASES, LOOKS
from anydepth.clock.rounds import Spread, Turn, speedup
from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.vocabulary.names import FULL

EQUAL_BLEU = 0.3
FULL_DEPTH = "full depth"
NOTHING = "-"


def bench_table(bench: Bench) -> str:
    """One table for each precision, beam and batch size, then what the columns mean and the
    recipe."""
    labels = policy_labels(bench.results)
    order = sorted(bench.results, key=cell_of)  # stable: contestants stay in their order
    lines = [line for cell, results in groupby(order, key=cell_of) for line in cell_table(cell, list(results), labels)]
    tables = [*histograms(order, labels), *phases_table(order, labels)]
    return "\n".join([*lines, *tables, *explained(bench.results, labels), *described(bench.recipe)])


def engines_table(bench: Bench) -> str:
    """One row per policy with the tokens/s and BLEU of each engine, and how many times the first
    engine's tokens/s that is.

    All are medians over the rounds with the lowest and the highest behind; the ratios are taken
    within the rounds.
    """
    names = {(result.system, result.precision): engine_name(result) for result in bench.results}
    rows = [["policy", "AE"]]
    for place, name in enumerate(names.values()):
        rows[0] += [f"{name} tokens/s", *(["times"] if place else []), "BLEU"]
    for policy in dict.fromkeys(result.policy for result in bench.results):
        first, *others = (result for result in bench.results if result.policy == policy)
        row = [policy, f"{first.average_exit:.2f}", spread(first.tokens_per_second, ",.0f"), figure(first.bleu, ".2f")]
        for result in others:
            times = speedup(turns_of(result), turns_of(first), count=result.tokens, rival_count=first.tokens)
            row += [spread(result.tokens_per_second, ",.0f"), spread(times, ".1f"), figure(result.bleu, ".2f")]
        rows.append(row)
    recipe = bench.recipe
    how = f"medians of {recipe.rounds} interleaved rounds, lowest-highest behind them"
    where = (
        f"{recipe.sentences:,} sentences, beam {recipe.beams[0]}, batches of {recipe.batches[0]}, "
        f"{recipe.threads} threads"
    )
    return "\n".join(
        [
            *aligned_table(rows),
            f"clock      {how} | times {next(iter(names.values()))}'s tokens/s, within rounds | {where}",
        ]
    )


def engine_name(result: Result) -> str:
    """The engine, with its precision where that is not float32."""
    return result.system if result.precision == "fp32" else f"{result.system}-{result.precision}"


def turns_of(result: Result) -> list[Turn]:
    """The contestant's turns, whole translations alone."""
    return [Turn([seconds], []) for seconds in result.seconds]


def cell_of(result: Result) -> tuple[str, int, int]:
    """The precision, beam and batch size of a result."""
    return result.precision, result.beam, result.batch


def cell_table(cell: tuple[str, int, int], results: Sequence[Result], labels: dict[tuple[str, str], str]) -> list[str]:
    """The contestants of one cell, one per line."""
    precision, beam, batch = cell
    columns: list[tuple[str, Callable[[Result], str]]] = [
        ("system", lambda result: result.system),
        *([("model", lambda result: result.model)] if any(result.model for result in results) else []),
        ("policy", lambda result: labels[result.contestant]),
        *([("words", words_cell)] if any(result.vocabulary != FULL for result in results) else []),
        ("tokens/s", lambda result: f"{result.tokens_per_second.median:,.0f}"),
        ("/ CT2", lambda result: spread(result.ratio)),
        ("decoding", lambda result: middle(result.decoding_tokens_per_second, ",.0f")),
        ("/ CT2", lambda result: spread(result.decoding_ratio)),
        ("/ own", lambda result: middle(result.own_decoding_speedup, ".2f")),
        ("eff.", lambda result: middle(result.efficiency, ".2f")),
        ("AE", lambda result: f"{result.average_exit:.2f}"),
        ("MFLOPs", lambda result: f"{result.formula_mflops_per_token:.2f}"),
        ("executed", lambda result: figure(result.executed_mflops_per_token, ".2f")),
        ("BLEU", lambda result: figure(result.bleu, ".2f")),
    ]
    if batch == 1:
        columns.append(
            (
                "p50/p95 ms",
                lambda result: f"{figure(result.latency_p50_ms, '.1f')}/{figure(result.latency_p95_ms, '.1f')}",
            )
        )
    rows = [[name for name, _ in columns], *([tell(result) for _, tell in columns] for result in results)]
    return [
        f"{precision}, beam {beam}, batch {batch}{bleu_range(results)}",
        *(line.rstrip() for line in aligned_table(rows)),
        "",
    ]


def bleu_range(results: Sequence[Result]) -> str:
    """Whether the contestants of a cell are of equal BLEU: the rival and the policies that choose,
    or all where there are no such two."""
    scored = [result for result in results if result.bleu is not None]
    chosen = [result for result in scored if result.system == CTRANSLATE2 or not result.is_full_depth]
    scores = [result.bleu for result in (chosen if len(chosen) > 1 else scored) if result.bleu is not None]
    if not scores:
        return ""
    apart = max(scores) - min(scores)
    return f": BLEU {apart:.2f} apart, {'within' if apart <= EQUAL_BLEU else 'NOT within'} {EQUAL_BLEU}"


def words_cell(result: Result) -> str:
    """How many words a sentence chose among; which way, where that is not known."""
    return result.vocabulary if result.mean_words is None else f"{result.mean_words:,.0f}"


def policy_labels(results: Sequence[Result]) -> dict[tuple[str, str], str]:
    """A short name for each policy of each model: "full depth", its family, and a letter where a
    family is there more than once."""
    labels: dict[tuple[str, str], str] = {}
    for result in results:
        if result.contestant in labels:
            continue
        short = (
            FULL_DEPTH
            if result.is_full_depth
            else result.policy
            if result.policy.startswith("fixed")
            else result.policy.partition(":")[0]
        )
        others = [label for (model, _), label in labels.items() if model == result.model]
        taken = sum(label.partition(" ")[0] == short for label in others) if short != FULL_DEPTH else 0
        labels[result.contestant] = f"{short} {chr(ord('a') + taken)}" if taken else short
    return labels


def histograms(results: Sequence[Result], labels: dict[tuple[str, str], str]) -> list[str]:
    """How many tokens leave at each exit, for every policy that chooses, in each precision and
    beam; the batch size changes nothing."""
    first: dict[tuple[str, str, int, str], Result] = {}
    for result in results:
        if not (result.is_full_depth or result.policy.startswith("fixed:")):
            first.setdefault((result.system, result.policy, result.beam, result.precision), result)
    if not first:
        return []
    exits = range(1, 1 + max(len(result.exit_counts) for result in first.values()))
    rows = [["tokens that leave at exit", *(str(n) for n in exits), "AE"]]
    for result in first.values():
        shares = [f"{100 * count / max(sum(result.exit_counts), 1):.1f}%" for count in result.exit_counts]
        name = f"{result.precision}, beam {result.beam}, {result.system} {labels[result.contestant]}"
        rows.append([name, *shares, f"{result.average_exit:.2f}"])
    return [*aligned_table(rows), ""]


def phases_table(results: Sequence[Result], labels: dict[tuple[str, str], str]) -> list[str]:
    """The share of each phase in the time of every contestant that tells, one contestant of a cell
    per line; looks at words stand first, and again among the phases."""
    told = [(result, result.phases) for result in results if result.phases is not None]
    if not told:
        return []
    phases = sorted(told[0][1], key=lambda phase: (phase != LOOKS, -told[0][1][phase].median))
    rows = [["share of the time", *phases]]
    for result, shares in told:
        name = f"{result.precision}, beam {result.beam}, batch {result.batch}, {result.system} "
        name += f"{labels[result.contestant]}, {words_cell(result)} words"
        looks, *others = (shares[phase] for phase in phases)
        rows.append([name, percent_spread(looks), *(f"{100 * share.median:.1f}%" for share in others)])
    return [*aligned_table(rows), f"{LOOKS:<10} {' and '.join(LOOK_PHASES)} together, with their range", ""]


def percent_spread(share: Spread) -> str:
    """A share with its range, as in "9.3% 9.1-9.8"."""
    return f"{100 * share.median:.1f}% {100 * share.low:.1f}-{100 * share.high:.1f}"


def explained(results: Sequence[Result], labels: dict[tuple[str, str], str]) -> list[str]:
    """What short names and headings stand for."""
    named = [
        f"{label}{f' of {model}' if model else ''} is {policy}"
        for (model, policy), label in labels.items()
        if label != policy
    ]
    threads = sorted(
        {
            f"beam {result.beam} batch {result.batch} {result.threads}"
            for result in results
            if result.threads not in ("", "1x1")
        }
    )
    return [
        f"policies   {'; '.join(named)}",
        *(
            [f"CT2        threads as translations x threads in each, the faster way: {', '.join(threads)}"]
            if threads
            else []
        ),
        "tokens/s   output tokens/s end to end, median over the rounds; decoding: without the first "
        "token, see the recipe",
        "/ CT2      against CTranslate2 at full depth in the same precision, median and range of the ratios "
        "within rounds",
        "/ own      decoding against the same engine at full depth; eff.: the ratio of times over that of "
        "FLOPs, executed where counted",
        "MFLOPs     a token by appendix B; executed: as counted by the engine, all hypotheses and padding included",
    ]


def described(recipe: BenchRecipe) -> list[str]:
    """The recipe in two lines."""
    machine, given = recipe.machine, []
    if recipe.run is not None:
        given.append(f"run {recipe.run} | weights {recipe.weights}")
    if recipe.rival is not None:
        given.append(f"CTranslate2 has the model of {recipe.rival}")
    if recipe.original is not None:
        given.append(f"others run {recipe.original}")
    if recipe.beside:
        given.append(f"beside {', '.join(recipe.beside)}")
    if recipe.test is not None:
        given.append(f"test {recipe.test}")
    if recipe.shape is not None:
        shares = ",".join(f"{share:.3f}" for share in recipe.exit_shares or [])
        given.append(
            f"shape {recipe.shape}, source {recipe.source_length}, output {recipe.output_length}, shares of exits "
            f"{shares}"
        )
    given += [
        f"{recipe.sentences:,} sentences",
        f"{recipe.rounds} rounds",
        f"length penalty {recipe.length_penalty:g}",
        f"seed {recipe.seed}",
    ]
    versions = ", ".join(f"{name} {number}" for name, number in recipe.versions.items())
    load = "" if machine.load_before is None else f", load {machine.load_before:.1f} before"
    return [
        f"decoding   {recipe.decoding_alone}",
        f"recipe     {' | '.join(given)}",
        f"machine    {machine.cpu}, {machine.cores} cores{load} | {recipe.threads} "
        f"thread{'s' * (recipe.threads > 1)} | {versions}",
    ]


def spread(value: Spread | None, form: str = ".2f") -> str:
    """A figure with its range, as in "2.31 2.25-2.40"."""
    return NOTHING if value is None else f"{value.median:{form}} {value.low:{form}}-{value.high:{form}}"


def middle(value: Spread | None, form: str) -> str:
    """The median alone."""
    return figure(None if value is None else value.median, form)


def figure(value: float | None, form: str) -> str:
    """A number that may be missing."""
    return NOTHING if value is None else format(value, form)


def bench_json(bench: Bench) -> str:
    """Everything that was measured, as one JSON object."""
    return json.dumps(asdict(bench), indent=1, ensure_ascii=False)
