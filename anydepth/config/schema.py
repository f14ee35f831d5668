"""Typed, frozen settings of a run: every section, its defaults, and which of them go together."""

import math
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from anydepth.config.model_settings import ConfigSection, ModelConfig, Probability
from anydepth.limits import (
    LARGEST_FACTOR,
    LARGEST_SEED,
    MOST_ACCUMULATION,
    MOST_BATCH_TOKENS,
    MOST_BEAM,
    MOST_CHECKPOINTS,
    MOST_DIM,
    MOST_LENGTH,
    MOST_MINUTES,
    MOST_PATHS,
    MOST_UPDATES,
)

Updates = Annotated[int, Field(ge=1, le=MOST_UPDATES)]
Tokens = Annotated[int, Field(ge=1, le=MOST_BATCH_TOKENS)]
Factor = Annotated[float, Field(gt=0, le=LARGEST_FACTOR)]
Weighting = Literal["1", "n", "sqrt(n)", "1/sqrt(n)", "1/n"]

WEIGHTINGS: dict[str, Callable[[int], float]] = {
    "1": lambda n: 1.0,
    "n": lambda n: float(n),
    "sqrt(n)": lambda n: math.sqrt(n),
    "1/sqrt(n)": lambda n: 1 / math.sqrt(n),
    "1/n": lambda n: 1 / n,
}

LAYER_DROP = 0.2
LOWEST_CONFIDENCE = 0.5


class TrainingConfig(ConfigSection):
    """How the weights are found: section 2, section 4.1 and appendix A of the paper."""

    mode: Literal["aligned", "mixed", "confident", "layerdrop"] = "aligned"
    """All exits from aligned states (Eq. 4), one drawn exit for each token (Eq. 5), the exits that
    tokens reach which leave by confidence, or LayerDrop with the last classifier alone."""
    exit_weights: Annotated[Weighting | list[Factor], BeforeValidator(lambda x: "1" if x == 1 else x)] = "1"
    """Weight omega_n of each exit's loss (Eq. 4): a formula, or one number for each exit."""
    exit_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the targets that each exit below the last learns from in an update, drawn anew for
    each; an update is faster with fewer. With `mode = "aligned"`."""
    paths: Annotated[int, Field(ge=1, le=MOST_PATHS)] = 1
    """Paths M of drawn exits for each sentence (Eq. 5); with `mode = "mixed"`."""
    lowest_confidence: Probability = LOWEST_CONFIDENCE
    """The threshold of a sentence is drawn between this and 1; with `mode = "confident"`."""
    layer_drop: Probability = LAYER_DROP
    """Chance that a decoder block is left out; with `mode = "layerdrop"`."""
    trunk: Literal["trained", "frozen"] = "trained"
    """Train all weights, or the adapters of the exits and the halting module alone: the rest keeps
    every bit, and runs without dropout."""
    full_depth_weight: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 0.0
    """Weight of the cross-entropy of an exit's words against those of the last exit, which is added
    to the loss of every exit below."""
    gradient_ratio: Factor | None = None
    """Gradient scaling gamma_n = ratio * (N - n) (appendix A, Algorithm 1); none leaves gradients
    as they are."""
    label_smoothing: Probability = 0.1
    """Share of each target's probability that is spread over the vocabulary."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of the classifiers' products."""
    block_precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of the products of all linear maps in encoder and decoder blocks, and of those that
    Muon makes."""
    updates: Updates = 50_000
    """Optimizer updates."""
    minutes: Annotated[float, Field(gt=0, le=MOST_MINUTES)] | None = None
    """Stop after this time even if updates are left."""
    batch_tokens: Tokens = 4096
    """Largest batch: sentences times tokens of the longest, padding included."""
    accumulation: Annotated[int, Field(ge=1, le=MOST_ACCUMULATION)] = 1
    """Batches of each worker whose gradients make one update."""
    optimizer: Literal["adam", "muon"] = "adam"
    """Adam for all weights (the paper), or Muon for the matrices of the blocks and Adam for the rest,
    which learns in fewer updates."""
    matrix_rate: Factor = 3.0
    """The rate of the matrices over `learning_rate`; with `optimizer = "muon"`."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    """Highest learning rate of Adam, reached after the warm-up."""
    warmup: Updates = 4000
    """Updates over which the rate rises; then it falls with their inverse square root."""
    cooldown: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the budget at its end in which the rate is multiplied by a factor that falls from 1
    to 0."""
    clip_norm: Factor = 3.0
    """Largest norm of an update's gradient."""
    left_out_in_a_row: Annotated[int, Field(ge=0, le=MOST_UPDATES)] = 10
    """Updates in a row that may be left out because their loss or gradient is not a number."""
    left_out: Annotated[int, Field(ge=0, le=MOST_UPDATES)] = 100
    """The same for all updates, in a row or not; the first beyond either number stops training."""
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 0.0
    """Decoupled weight decay."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 1
    """Another seed gives other weights, batches and dropout."""
    log_every: Updates = 50
    """Updates between two lines of the log."""
    save_every: Updates = 500
    """Updates between two saved states, from which a stopped run is resumed."""
    final: Literal["last", "best", "average"] = "best"
    """Weights to end with: the last, the best validation's, or the average of the last saved ones."""
    average: Annotated[int, Field(ge=1, le=MOST_CHECKPOINTS)] = 10
    """How many saved weights the average takes; with `final = "average"`."""
    patience: Updates | None = None
    """Stop after so many validations without a better one; none never does."""


class ValidationConfig(ConfigSection):
    """What is measured on the validation set during training, how often, and which figure decides
    what is best."""

    every: Updates = 500
    """Updates between two validations."""
    metric: Literal["loss", "bleu"] = "loss"
    """What decides which validation is best."""
    sentences: Annotated[int, Field(ge=0, le=MOST_UPDATES)] = 200
    """Validation sentences that are translated greedily for BLEU at each exit; 0 measures the loss
    alone."""
    batch_tokens: Tokens = 4096
    """Largest batch of validation, as in `training.batch_tokens`."""


class ExitsConfig(ConfigSection):
    """How the model learns where to stop: section 3 of the paper. Without a halting module there is
    nothing to learn."""

    halting: Literal["none", "sequence", "multinomial", "geometric"] = "none"
    """The module that learns where to stop: a sentence (Eq. 8), a token after block 1 (Eq. 11) or
    after each block (Eqs. 12-13)."""
    halting_units: Annotated[int, Field(ge=0, le=MOST_DIM)] = 0
    """Rectified units between a state and the geometric-like decision, beyond the paper; 0 is the
    paper's vector."""
    oracle: Literal["likelihood", "correctness", "bleu"] = "correctness"
    """What the module learns from: likelihood (LL), correctness (C), or the BLEU of each exit's
    translation."""
    exit_penalty: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 0.1
    """Penalty lambda of each further block; higher stops earlier."""
    kernel_width: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 0.0
    """Width sigma of the kernel over neighbouring tokens; 0 is the token alone."""
    exit_loss_weight: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 1.0
    """Weight alpha of the exit loss (Eq. 7)."""
    stop_gradient: bool = False
    """Keep the exit loss from the encoder and decoder."""
    rate_factor: Factor = 1.0
    """The halting module's learning rate over that of the rest."""
    path_weight: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 0.0
    """Weight of a mixed loss (Eq. 5) along exits drawn from the module, beyond the paper."""


class DecodingConfig(ConfigSection):
    """Defaults of translate and evaluate."""

    beam: Annotated[int, Field(ge=1, le=MOST_BEAM)] = 5
    """Hypotheses to keep; 1 is greedy."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Exponent of the length by which scores are divided."""
    length_ratio: Annotated[float, Field(ge=0, le=100)] = 1.5
    """An output has at most `length_ratio` times the source's tokens, and `length_offset` more."""
    length_offset: Annotated[int, Field(ge=1, le=MOST_LENGTH)] = 20
    """See `length_ratio`."""
    early_stopping: bool = True
    """End a sentence as soon as `beam` hypotheses have ended; false goes on while the best one that
    runs beats the worst of the best `beam`, by score over length, as transformers does."""
    batch_tokens: Tokens = 4096
    """Source tokens times beam that are searched together."""


class Config(ConfigSection):
    """All settings of a run."""

    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    exits: ExitsConfig = ExitsConfig()
    validation: ValidationConfig = ValidationConfig()
    decoding: DecodingConfig = DecodingConfig()

    @model_validator(mode="after")
    def parts_fit(self) -> "Config":
        self.check_training()
        self.check_exits()
        if self.validation.metric == "bleu" and self.validation.sentences == 0:
            raise ValueError('validation.metric = "bleu" needs validation.sentences above 0')
        return self

    def check_training(self) -> None:
        """A ValueError where the settings of training do not fit the model or each other."""
        weights, blocks = self.training.exit_weights, len(self.model.classifier_exits)
        if isinstance(weights, list) and len(weights) != blocks:
            raise ValueError(
                f"training.exit_weights has {len(weights)} numbers but the model has {blocks} exits; give one for "
                "each exit"
            )
        mode = self.training.mode
        if self.model.exits == "last" and mode != "aligned":
            raise ValueError(f'training.mode = "{mode}" needs an exit after every block; set model.exits = "all"')
        if self.model.exits == "last" and self.training.gradient_ratio is not None:
            raise ValueError('training.gradient_ratio needs an exit after every block; set model.exits = "all"')
        if self.model.attended_states != "below" and self.training.gradient_ratio is not None:
            raise ValueError(
                "training.gradient_ratio scales what each block sends to the one below it (appendix A), and with "
                f'model.attended_states = "{self.model.attended_states}" all blocks send to the first; leave one of '
                "the two out"
            )
        if mode != "aligned" and self.training.gradient_ratio is not None:
            raise ValueError(
                'training.gradient_ratio belongs to aligned training (appendix A); set training.mode = "aligned"'
            )
        if mode not in ("aligned", "confident") and weights != "1":
            raise ValueError('training.exit_weights belongs to aligned training (Eq. 4); set training.mode = "aligned"')
        if mode == "layerdrop" and self.model.classifiers == "untied":
            raise ValueError(
                'training.mode = "layerdrop" trains the last classifier alone, so that untied ones below would know '
                'nothing; set model.classifiers = "shared" or "tied"'
            )
        if mode == "layerdrop" and self.model.exit_adapter:
            raise ValueError(
                'training.mode = "layerdrop" trains the last exit alone, so that the adapters of those below would '
                "know nothing; set model.exit_adapter = 0"
            )
        if mode != "layerdrop" and self.training.layer_drop != LAYER_DROP:
            raise ValueError(
                f'training.layer_drop = {self.training.layer_drop} needs training.mode = "layerdrop"; set that, or '
                "leave it out"
            )
        if mode != "confident" and self.training.lowest_confidence != LOWEST_CONFIDENCE:
            raise ValueError(
                f"training.lowest_confidence = {self.training.lowest_confidence} needs training.mode = "
                f'"confident"; set that, or training.lowest_confidence = {LOWEST_CONFIDENCE}'
            )
        if mode != "mixed" and self.training.paths != 1:
            raise ValueError(
                f'training.paths = {self.training.paths} needs training.mode = "mixed"; set that, or training.paths = 1'
            )
        self.check_trunk()

    def check_trunk(self) -> None:
        """A ValueError where nothing is left to train, or full depth has nobody to teach."""
        if self.training.trunk == "frozen" and not self.model.exit_adapter and self.exits.halting == "none":
            raise ValueError(
                'training.trunk = "frozen" leaves nothing to train in a model without adapters and halting module; set '
                "model.exit_adapter or exits.halting"
            )
        self.check_exit_share()
        weight = self.training.full_depth_weight
        if weight > 0 and (self.training.mode != "aligned" or self.model.exits == "last"):
            raise ValueError(
                f"training.full_depth_weight = {weight} compares every exit with the last one at each position; set "
                'model.exits = "all" and training.mode = "aligned"'
            )

    def check_exit_share(self) -> None:
        """A ValueError where a part of the targets is not enough for each exit."""
        share = self.training.exit_share
        if share == 1:
            return
        if self.training.mode != "aligned":
            raise ValueError(
                f'training.exit_share = {share} belongs to aligned training (Eq. 4); set training.mode = "aligned", or '
                "training.exit_share = 1"
            )
        if self.training.full_depth_weight > 0 or self.exits.halting != "none":
            raise ValueError(
                f"training.exit_share = {share} leaves targets out at some exits, and a halting module and "
                "training.full_depth_weight look at all exits of a target; set training.exit_share = 1"
            )

    def check_exits(self) -> None:
        """A ValueError where the settings of the exits do not fit the training, the model or each
        other."""
        mode = self.training.mode
        if self.exits.halting != "none" and self.model.exits == "last":
            raise ValueError(
                f'exits.halting = "{self.exits.halting}" needs an exit after every block; set model.exits = "all"'
            )
        if self.exits.halting != "none" and mode != "aligned":
            raise ValueError(
                f'exits.halting = "{self.exits.halting}" learns from the states of all blocks; set training.mode = '
                '"aligned" (exits.path_weight adds mixed paths)'
            )
        if self.exits.oracle == "bleu" and self.exits.halting != "sequence":
            raise ValueError(
                'exits.oracle = "bleu" knows the best exit of a whole sentence, not of a token; set exits.halting = '
                '"sequence", or exits.oracle = "likelihood" or "correctness"'
            )
        if self.exits.halting == "none" and self.exits.path_weight > 0:
            raise ValueError(
                'exits.path_weight needs a halting module to draw paths from; set exits.halting, as in "geometric"'
            )
        if self.exits.halting == "sequence" and self.exits.path_weight > 0:
            raise ValueError(
                'exits.path_weight is for tokens that leave at different blocks; exits.halting = "sequence" has none'
            )
        if self.exits.halting != "geometric" and self.exits.halting_units > 0:
            raise ValueError(
                f'exits.halting_units = {self.exits.halting_units} needs exits.halting = "geometric", which decides '
                "after each block; set that, or exits.halting_units = 0"
            )
        if self.exits.halting == "sequence" and self.exits.kernel_width > 0:
            raise ValueError(
                'exits.kernel_width belongs to token-level oracles (Eqs. 14-17); exits.halting = "sequence" has none'
            )


def exit_weights(config: Config) -> tuple[float, ...]:
    """The weights omega_n of the exits, lowest exit first (Eq. 4)."""
    weights = config.training.exit_weights
    if isinstance(weights, str):
        return tuple(WEIGHTINGS[weights](n) for n in config.model.classifier_exits)
    return tuple(weights)
