"""The runs that the experiments of the paper need: what distinguishes each, where it starts from
and what is measured on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from anydepth.config.loading import with_changes
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.evaluation.evaluate import EACH_EXIT
from anydepth.experiments.records import Role
from anydepth.experiments.repeats import repeat_wish

ALIGNED = "aligned"
RACE: Final = "race"
OWN_RACE = "race-own"
RACES = (RACE, OWN_RACE)
ADAPTIVE, START, PLAIN, DEEP_ENCODER = "race-adaptive", "race-start", "race-plain", "race-deep-encoder"
WEIGHTINGS = {"omega-n": "n", "omega-sqrt-n": "sqrt(n)", "omega-inverse-sqrt-n": "1/sqrt(n)", "omega-inverse-n": "1/n"}
BY_MUON = 'training.optimizer="muon"'
RATIOS = (0.3, 0.5, 0.7, 0.9, 1.1)
LAYER_DROPS = (0.2, 0.5)
# Penalties are in the units of each oracle's score: nats of a token, nats or right words of a
# sentence, points of BLEU.
PENALTIES = {
    "tok-ll": (0.01, 0.05, 0.1),
    "seq-c": (0.02, 0.1, 0.3),
    "seq-ll": (0.1, 0.5, 1.5),
    "seq-bleu": (0.5, 2.0, 8.0),
}
ORACLES = {"c": "correctness", "ll": "likelihood", "bleu": "bleu"}
# Of 1 / (N - 1). A token is right or wrong, so all penalties below that name the same exits; above
# it the deepest are out of reach.
CORRECTNESS_PENALTIES = (0.5, 1.5, 3.0)
FIGURE4_PENALTIES = (0.01, 0.05, 0.1, 0.2)
FIGURE4_WIDTHS = (0.0, 1.0, 4.0, 16.0)
DISTILLED_DEPTHS = (1, 2, 3)
# What a run learns to say: the text's own targets, the deepest baseline's translations of its
# sources, or both, one after the other.
Targets: TypeAlias = Literal["references", "translations", "both"]


@dataclass(frozen=True)
class Variant:
    """A run of a study. `changes` are over the study's settings, `policies` are measured on both
    held-out sets, and the operating points of the family `tuned`, found on the validation set, on
    the test set."""

    name: str
    role: Role
    changes: tuple[str, ...] = ()
    origin: str | None = None
    policies: tuple[str, ...] = ()
    tuned: str | None = None
    seed: int = 1
    targets: Targets = "references"
    needs_scores: bool = False
    is_repeated: bool = True  # trained with every seed of the study, or with the first alone
    text_seed: int | None = None  # of the run that it starts from, and of its teacher; None: its own

    @property
    def is_raced_adaptively(self) -> bool:
        """Whether it takes part in a race at every exit and at tuned points."""
        return self.name in (ADAPTIVE, OWN_RACE)

    @property
    def taught_by(self) -> int:
        """The seed of the baseline whose translations it learns from."""
        return self.seed if self.text_seed is None else self.text_seed

    @property
    def run(self) -> str:
        """The name of the run's folder: that of the variant, and the seed where it is not the
        first."""
        return seeded(self.name, self.seed)

    def with_seed(self, seed: int) -> "Variant":
        """The same with other random numbers; where it starts from a run, from that of the same seed,
        or of its teacher's."""
        first = seed if self.text_seed is None else self.text_seed
        return replace(self, seed=seed, origin=None if self.origin is None else seeded(self.origin, first))


def seeded(name: str, seed: int) -> str:
    """The name of a variant's run with the study's seed number `seed`."""
    return name if seed == 1 else f"{name}.{seed}"


def aligned() -> Variant:
    """The model that all second stages start from (Eq. 4)."""
    return Variant(ALIGNED, "aligned", policies=(EACH_EXIT,), tuned="confidence")


def continued() -> Variant:
    """The control of all second stages: the aligned model with as many updates more, and no halting
    module."""
    return Variant("aligned-continued", "continued", origin=ALIGNED, policies=(EACH_EXIT,))


def baselines(config: Config) -> list[Variant]:
    """Standard Transformers of 1..N blocks with one classifier."""
    return [baseline(depth) for depth in range(1, config.model.blocks + 1)]


def baseline(depth: int) -> Variant:
    """A standard Transformer of `depth` blocks."""
    return Variant(f"baseline-{depth}", "baseline", one_classifier(depth), policies=(f"fixed:{depth}",))


def one_classifier(depth: int) -> tuple[str, ...]:
    """The changes that make a standard Transformer of `depth` blocks."""
    return f"model.blocks={depth}", 'model.exits="last"', 'training.exit_weights="1"'


def mixed(config: Config) -> list[Variant]:
    """Mixed training with 1, N / 2 and N paths (Eq. 5): M = 1, 3, 6 in the paper."""
    blocks = config.model.blocks
    return [
        Variant(f"mixed-{paths}", "mixed", ('training.mode="mixed"', f"training.paths={paths}"), policies=(EACH_EXIT,))
        for paths in sorted({1, max(1, blocks // 2), blocks})
    ]


def weightings() -> list[Variant]:
    """Aligned training with other weights omega_n than 1."""
    return [
        Variant(name, "omega", (f'training.exit_weights="{weights}"',), policies=(EACH_EXIT,))
        for name, weights in WEIGHTINGS.items()
    ]


def gradient_ratios() -> list[Variant]:
    """Aligned training with gradient scaling (appendix A)."""
    return [
        Variant(f"gamma-{ratio}", "gamma", (f"training.gradient_ratio={ratio}",), policies=(EACH_EXIT,))
        for ratio in RATIOS
    ]


def halting(level: str, oracle: str, module: str, penalty: float, width: float = 0.0) -> Variant:
    """A second stage from the aligned model (Eq. 7)."""
    form = "" if level == "seq" else f"-{module}"
    return Variant(
        f"{level}-{oracle}{form}-l{penalty:g}" + (f"-s{width:g}" if width else ""),
        "halting",
        (
            f'exits.halting="{module}"',
            f'exits.oracle="{ORACLES[oracle]}"',
            f"exits.exit_penalty={penalty}",
            f"exits.kernel_width={width}",
        ),
        origin=ALIGNED,
        policies=(module,),
        tuned="geometric" if module == "geometric" else None,
        needs_scores=oracle == "bleu",
    )


def token_level(oracle: str, module: str, config: Config) -> list[Variant]:
    """Tok-C or Tok-LL with one of the two modules, for several lambda."""
    return [halting("tok", oracle, module, penalty) for penalty in token_penalties(oracle, config.model.blocks)]


def token_penalties(oracle: str, blocks: int) -> tuple[float, ...]:
    """Lambda of a token-level oracle for a decoder of so many blocks."""
    match oracle:
        case "ll":
            return PENALTIES["tok-ll"]
        case "c":
            return tuple(round(share / max(1, blocks - 1), 3) for share in CORRECTNESS_PENALTIES)
    raise UsageError(f"the oracle {oracle!r} has no penalties for tokens; those that have: c, ll")


def sequence_level(oracle: str) -> list[Variant]:
    """Seq-C, Seq-LL or Seq-BLEU, for several lambda."""
    return [halting("seq", oracle, "sequence", penalty) for penalty in PENALTIES[f"seq-{oracle}"]]


def table1(config: Config) -> list[Variant]:
    """Aligned against mixed training, and the baselines. Table 1."""
    return [aligned(), *baselines(config), *mixed(config)]


def table2(config: Config) -> list[Variant]:
    """Weights of the exits' losses. Table 2."""
    return [aligned(), *baselines(config), *weightings()]


def table3(config: Config) -> list[Variant]:
    """Gradient scaling. Table 3."""
    return [aligned(), *baselines(config), *gradient_ratios()]


def figure3(config: Config) -> list[Variant]:
    """All mechanisms at several lambda. Figure 3."""
    pairs = [(oracle, module) for oracle in ("c", "ll") for module in ("geometric", "multinomial")]
    tokens = [variant for oracle, module in pairs for variant in token_level(oracle, module, config)]
    return [aligned(), continued(), *baselines(config), *tokens, *sequence_level("ll"), *sequence_level("c")]


def figure4(config: Config) -> list[Variant]:
    """Lambda and sigma of Tok-LL, geometric-like. Figure 4."""
    by_penalty = [(penalty, width) for width in FIGURE4_WIDTHS[:2] for penalty in FIGURE4_PENALTIES]
    by_width = [(penalty, width) for penalty in FIGURE4_PENALTIES[:2] for width in FIGURE4_WIDTHS]
    return [aligned(), *(halting("tok", "ll", "geometric", *pair) for pair in dict.fromkeys(by_penalty + by_width))]


def figure5(config: Config) -> list[Variant]:
    """The best mechanisms against average exit and FLOPs. Figure 5."""
    tokens = [variant for oracle in ("c", "ll") for variant in token_level(oracle, "geometric", config)]
    return [aligned(), continued(), *baselines(config), *tokens, *sequence_level("ll")]


def figures6to9(config: Config) -> list[Variant]:
    """What single words, positions and scores look like, on the Tok-LL model with the middle
    lambda."""
    return [aligned(), sampled()]


def sampled() -> Variant:
    """The run that figures 6 to 9 look at."""
    return halting("tok", "ll", "geometric", PENALTIES["tok-ll"][1])


def cost(config: Config) -> list[Variant]:
    """Nothing is trained to its end for the cost of an update."""
    return []


def seq_bleu(config: Config) -> list[Variant]:
    """The BLEU oracle, and the two of the paper for sequences."""
    return [aligned(), continued(), *sequence_level("bleu"), *sequence_level("ll"), *sequence_level("c")]


def rivals(config: Config) -> list[Variant]:
    """A deep encoder with a shallow decoder, fewer blocks taught by the deepest baseline, and
    LayerDrop cut at n."""
    depths = shallow_depths(config)
    distilled = [
        Variant(
            f"rival-distilled-{depth}",
            "rival",
            one_classifier(depth),
            policies=(f"fixed:{depth}",),
            targets="translations",
        )
        for depth in depths
    ]
    shared = () if config.model.classifiers != "untied" else ('model.classifiers="shared"',)
    dropped = [
        Variant(
            f"rival-layerdrop-{drop}",
            "rival",
            ('training.mode="layerdrop"', f"training.layer_drop={drop}", *shared),
            policies=(EACH_EXIT,),
        )
        for drop in LAYER_DROPS
    ]
    deepest = sorted({*depths, config.model.blocks})
    return [aligned(), continued(), *map(baseline, deepest), shallow(config), *distilled, *dropped]


def shallow_depths(config: Config) -> list[int]:
    """The depths that a user would train instead of the whole decoder."""
    return [depth for depth in DISTILLED_DEPTHS if depth < config.model.blocks]


def race(config: Config) -> list[Variant]:
    """The adaptive model, which starts from one that learned with all exits from the text alone,
    decoders of few blocks, which start from the deepest baseline, and a deep encoder with a decoder of
    one, which starts from nothing; all on the text and its translations by that baseline."""
    blocks = config.model.blocks
    plain = [
        Variant(f"{PLAIN}-{depth}", RACE, (*one_classifier(depth), BY_MUON), policies=(f"fixed:{depth}",))
        for depth in shallow_depths(config)
    ]
    deep_encoder = replace(shallow(config), name=DEEP_ENCODER, role=RACE)
    teacher = replace(baseline(blocks), is_repeated=False)
    start = race_start(config)
    adaptive = Variant(ADAPTIVE, RACE, race_exits(blocks), policies=(EACH_EXIT,))
    students = [taught_once(replace(each, origin=teacher.run, is_repeated=False)) for each in plain]
    others = [*students, taught_once(replace(deep_encoder, is_repeated=False))]
    return [teacher, start, taught_once(replace(adaptive, origin=start.run)), *others]


def race_own(config: Config) -> list[Variant]:
    """The adaptive model of the race without rivals and teacher: tuned points beside fixed exits of the
    same model, which learned from the text alone."""
    start, exits = race_start(config), race_exits(config.model.blocks)
    return [start, Variant(OWN_RACE, RACE, exits, origin=start.run, policies=(EACH_EXIT,), text_seed=1)]


def race_start(config: Config) -> Variant:
    """The model with all exits that the adaptive runs of all seeds start from."""
    return Variant(START, "aligned", race_exits(config.model.blocks), policies=(EACH_EXIT,), is_repeated=False)


def race_exits(blocks: int) -> tuple[str, ...]:
    """What the model that the race is about changes: no token's exit changes what later ones attend to,
    or costs keys and values of each block above, and the exits weigh most that most tokens take, the
    lowest and the last."""
    return (
        'model.exits="all"',
        'model.attended_states="shared"',
        f"training.exit_weights={[*(1.5, *[0.3] * blocks)[: blocks - 1], 2.0]}",
        "training.exit_share=0.34",
        BY_MUON,
    )


def taught_once(variant: Variant) -> Variant:
    """The run with the text and the translations of the first baseline, whatever its own seed."""
    return replace(variant, targets="both", text_seed=1)


def shallow(config: Config) -> Variant:
    """All but one of the decoder's blocks moved to the encoder, as many as have the same number of
    parameters; at half of the rate, after twice the warm-up, since a deep encoder does not learn at
    that of the others."""
    encoder_block, decoder_block = block_parameters(config)
    blocks = config.model.encoder.blocks + round((config.model.blocks - 1) * decoder_block / encoder_block)
    training = config.training
    slower = f"training.learning_rate={training.learning_rate / 2:g}", f"training.warmup={2 * training.warmup}"
    return Variant(
        "rival-shallow", "rival", (f"model.encoder.blocks={blocks}", *one_classifier(1), *slower), policies=("fixed:1",)
    )


def block_parameters(config: Config) -> tuple[int, int]:
    """The weights of an encoder block and of a decoder block, biases and norms aside."""
    encoder, decoder = config.model.encoder, config.model.decoder
    # keys and values of the source are made from the encoder's width
    attending = 6 * decoder.dim**2 + 2 * decoder.dim * encoder.dim
    return 4 * encoder.dim**2 + 2 * encoder.dim * encoder.ffn_dim, attending + 2 * decoder.dim * decoder.ffn_dim


EXPERIMENTS: dict[str, Callable[[Config], list[Variant]]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figures6-9": figures6to9,
    "cost": cost,
    "rivals": rivals,
    "seq-bleu": seq_bleu,
    RACE: race,
    OWN_RACE: race_own,
}
ALL = "all"
BY_NAME_ALONE = RACES  # what "all" leaves out: beyond the paper, and long on the clock with nothing beside it


def chosen_experiments(names: list[str]) -> list[str]:
    """The experiments that are asked for, in the order of the paper, "all" written out; it is all
    that the paper's claims and rivals need, and no race."""
    if unknown := [name for name in names if name not in (*EXPERIMENTS, ALL)]:
        raise UsageError(f"there is no study {unknown[0]!r}; choose from {', '.join((*EXPERIMENTS, ALL))}")
    if set(RACES) <= set(names):
        raise UsageError(f"{RACE} and {OWN_RACE} race different models; make a study of each, in folders of their own")
    return [name for name in EXPERIMENTS if name in names or (ALL in names and name not in BY_NAME_ALONE)]


def planned_variants(
    experiments: list[str], config: Config, *, seeds: int, repeated: Sequence[str] = ()
) -> list[Variant]:
    """The runs of all experiments, each once, those of the first seed first; what an experiment
    trains once has the other seeds where another experiment or `repeated` asks for them, by a run's
    name (all seeds) or as RUN:K (the first K)."""
    every = [variant for name in experiments for variant in EXPERIMENTS[name](config)]
    needed = {variant.name: variant for variant in every}
    wanted: dict[str, int] = {}
    for run, count in (repeat_wish(text, seeds) for text in repeated):
        wanted[run] = max(count, wanted.get(run, 0))
    if unknown := [name for name in wanted if name not in needed]:
        raise UsageError(f"--repeat {unknown[0]}: there is no such run; choose from {', '.join(needed)}")
    most = wanted | {variant.name: seeds for variant in every if variant.is_repeated}
    return [
        variant.with_seed(seed)
        for seed in range(1, seeds + 1)
        for variant in needed.values()
        if seed <= most.get(variant.name, 1)
    ]


def variant_changes(variant: Variant, first_seed: int, second_stage: tuple[str, ...]) -> tuple[str, ...]:
    """All changes over the study's settings: those of a second stage for a run that is one, its
    own, and its seed."""
    stage = second_stage if variant.origin is not None else ()
    return (*stage, *variant.changes, f"training.seed={first_seed + variant.seed - 1}")


def variant_config(variant: Variant, config: Config, second_stage: tuple[str, ...]) -> Config:
    """The settings of a run, checked."""
    return with_changes(config, variant_changes(variant, config.training.seed, second_stage))
