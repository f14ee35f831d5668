"""Typed, frozen settings; TOML in and out; `--set model.blocks=3`; unknown keys are refused with the nearest match."""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from anydepth.atomic import write_text
from anydepth.errors import ConfigError
from anydepth.limits import (
    LARGEST_FACTOR,
    LARGEST_SEED,
    MOST_ACCUMULATION,
    MOST_BATCH_TOKENS,
    MOST_BEAM,
    MOST_BLOCKS,
    MOST_CHECKPOINTS,
    MOST_DIM,
    MOST_HEADS,
    MOST_LENGTH,
    MOST_MINUTES,
    MOST_PATHS,
    MOST_UPDATES,
)
from anydepth.reading import Unreadable, parse_toml, read_toml, shortened, shown

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Dim = Annotated[int, Field(ge=1, le=MOST_DIM)]
Blocks = Annotated[int, Field(ge=1, le=MOST_BLOCKS)]
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
UNSET = "none"  # on the command line: back to the default


class Section(BaseModel):
    """A frozen group of settings that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class EncoderConfig(Section):
    """The encoder's own sizes."""

    blocks: Blocks = 6
    """Blocks of the encoder."""
    dim: Dim = 512
    """Width of the encoder; divisible by `model.heads`, and even."""
    ffn_dim: Dim = 1024
    """Width of the feed-forward layer of an encoder block."""


class DecoderConfig(Section):
    """The decoder's own sizes; its number of blocks is `model.blocks`, the N of the paper."""

    dim: Dim = 256
    """Width of the decoder; divisible by `model.heads`, and even."""
    ffn_dim: Dim = 1024
    """Width of the feed-forward layer of a decoder block."""


class ModelConfig(Section):
    """A Transformer with an exit after every decoder block, or after the last one only (the baseline)."""

    blocks: Blocks = 6
    """Blocks of the decoder, the N of the paper."""
    heads: Annotated[int, Field(ge=1, le=MOST_HEADS)] = 4
    """Attention heads of every block."""
    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    classifiers: Literal["untied", "shared", "tied"] = "untied"
    """Output matrices: one for each exit, one for all, or the target embedding itself (with a joint vocabulary the source's as well)."""
    exits: Literal["all", "last"] = "all"
    """An exit after every decoder block, or after the last one only (a standard Transformer)."""
    dropout: Probability = 0.3
    """Dropout of embeddings and of what each layer adds."""
    attention_dropout: Probability = 0.0
    """Dropout of attention weights."""
    max_length: Annotated[int, Field(ge=1, le=MOST_LENGTH)] = 256
    """Longest sentence in tokens; a longer source is cut, and no output is longer."""

    @model_validator(mode="after")
    def sizes_fit(self) -> "ModelConfig":
        for side, dim in (("encoder", self.encoder.dim), ("decoder", self.decoder.dim)):
            if dim % self.heads:
                below, above = dim - dim % self.heads, dim - dim % self.heads + self.heads
                choices = " or ".join(str(choice) for choice in (below, above) if choice > 0)
                raise ValueError(f"model.{side}.dim = {dim} is not divisible by model.heads = {self.heads}; try {choices}")
            if dim % 2:
                raise ValueError(f"model.{side}.dim = {dim} is odd; sinusoidal positions need an even width, try {dim + self.heads}")
        return self

    @property
    def classifier_exits(self) -> tuple[int, ...]:
        """The exits that have a classifier, lowest first."""
        return tuple(range(1, self.blocks + 1)) if self.exits == "all" else (self.blocks,)


class TrainingConfig(Section):
    """How the weights are found: section 2, section 4.1 and appendix A of the paper."""

    mode: Literal["aligned", "mixed", "layerdrop"] = "aligned"
    """All exits from aligned states (Eq. 4), one drawn exit for each token (Eq. 5), or LayerDrop with the last classifier alone."""
    exit_weights: Annotated[Weighting | list[Factor], BeforeValidator(lambda x: "1" if x == 1 else x)] = "1"
    """Weight omega_n of each exit's loss (Eq. 4): a formula, or one number for each exit."""
    paths: Annotated[int, Field(ge=1, le=MOST_PATHS)] = 1
    """Paths M of drawn exits for each sentence (Eq. 5); with `mode = "mixed"`."""
    layer_drop: Probability = LAYER_DROP
    """Chance that a decoder block is left out; with `mode = "layerdrop"`."""
    gradient_ratio: Factor | None = None
    """Gradient scaling gamma_n = ratio * (N - n) (appendix A, Algorithm 1); none leaves gradients as they are."""
    label_smoothing: Probability = 0.1
    """Share of each target's probability that is spread over the vocabulary."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of the classifiers' products."""
    updates: Updates = 50_000
    """Optimizer updates."""
    minutes: Annotated[float, Field(gt=0, le=MOST_MINUTES)] | None = None
    """Stop after this time even if updates are left."""
    batch_tokens: Tokens = 4096
    """Largest batch: sentences times tokens of the longest, padding included."""
    accumulation: Annotated[int, Field(ge=1, le=MOST_ACCUMULATION)] = 1
    """Batches of each worker whose gradients make one update."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    """Highest learning rate of Adam, reached after the warm-up."""
    warmup: Updates = 4000
    """Updates over which the rate rises; then it falls with the inverse square root of the update."""
    cooldown: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the budget at its end in which the rate is multiplied by a factor that falls from 1 to 0."""
    clip_norm: Factor = 3.0
    """Largest norm of an update's gradient."""
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST_FACTOR)] = 0.0
    """Decoupled weight decay."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 1
    """Another seed gives other weights, batches and dropout."""
    log_every: Updates = 50
    """Updates between two lines of the log."""
    save_every: Updates = 500
    """Updates between two saved states, from which a stopped run goes on."""
    final: Literal["last", "best", "average"] = "best"
    """Weights to end with: the last, those of the best validation, or the average of the last saved ones."""
    average: Annotated[int, Field(ge=1, le=MOST_CHECKPOINTS)] = 10
    """How many saved weights the average takes; with `final = "average"`."""
    patience: Updates | None = None
    """Stop after so many validations without a better one; none never does."""


class ValidationConfig(Section):
    """What is measured on the validation set during training, how often, and which figure decides what is best."""

    every: Updates = 500
    """Updates between two validations."""
    metric: Literal["loss", "bleu"] = "loss"
    """What decides which validation is best."""
    sentences: Annotated[int, Field(ge=0, le=MOST_UPDATES)] = 200
    """Validation sentences that are translated greedily for BLEU at each exit; 0 measures the loss alone."""
    batch_tokens: Tokens = 4096
    """Largest batch of validation, as in `training.batch_tokens`."""


class ExitsConfig(Section):
    """How the model learns where to stop: section 3 of the paper. Without a halting module there is nothing to learn."""

    halting: Literal["none", "sequence", "multinomial", "geometric"] = "none"
    """The module that learns where to stop: a sentence (Eq. 8), a token after block 1 (Eq. 11) or after each block (Eqs. 12-13)."""
    halting_units: Annotated[int, Field(ge=0, le=MOST_DIM)] = 0
    """Rectified units between a state and the geometric-like decision, beyond the paper; 0 is the paper's vector."""
    oracle: Literal["likelihood", "correctness", "bleu"] = "correctness"
    """What the module learns from: likelihood (LL), correctness (C), or the BLEU of each exit's translation."""
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


class DecodingConfig(Section):
    """Defaults of translate and evaluate."""

    beam: Annotated[int, Field(ge=1, le=MOST_BEAM)] = 5
    """Hypotheses to keep; 1 is greedy."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Exponent of the length by which scores are divided."""
    length_ratio: Annotated[float, Field(gt=0, le=100)] = 1.5
    """An output has at most `length_ratio` times the source's tokens, and `length_offset` more."""
    length_offset: Annotated[int, Field(ge=1, le=MOST_LENGTH)] = 20
    """See `length_ratio`."""
    batch_tokens: Tokens = 4096
    """Source tokens times beam that are searched together."""


class Config(Section):
    """All settings of a run."""

    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    exits: ExitsConfig = ExitsConfig()
    validation: ValidationConfig = ValidationConfig()
    decoding: DecodingConfig = DecodingConfig()

    @model_validator(mode="after")
    def parts_fit(self) -> "Config":
        weights, blocks = self.training.exit_weights, len(self.model.classifier_exits)
        if isinstance(weights, list) and len(weights) != blocks:
            raise ValueError(f"training.exit_weights has {len(weights)} numbers but the model has {blocks} exits; give one for each exit")
        mode = self.training.mode
        if self.model.exits == "last" and mode != "aligned":
            raise ValueError(f'training.mode = "{mode}" needs an exit after every block; set model.exits = "all"')
        if self.model.exits == "last" and self.training.gradient_ratio is not None:
            raise ValueError('training.gradient_ratio needs an exit after every block; set model.exits = "all"')
        if mode != "aligned" and self.training.gradient_ratio is not None:
            raise ValueError('training.gradient_ratio belongs to aligned training (appendix A); set training.mode = "aligned"')
        if mode != "aligned" and weights != "1":
            raise ValueError('training.exit_weights belongs to aligned training (Eq. 4); set training.mode = "aligned"')
        if mode == "layerdrop" and self.model.classifiers == "untied":
            raise ValueError(
                'training.mode = "layerdrop" trains the last classifier alone, so that untied ones below would know nothing; '
                'set model.classifiers = "shared" or "tied"'
            )
        if mode != "layerdrop" and self.training.layer_drop != LAYER_DROP:
            raise ValueError(
                f'training.layer_drop = {self.training.layer_drop} needs training.mode = "layerdrop"; set that, or leave it out'
            )
        if mode != "mixed" and self.training.paths != 1:
            raise ValueError(f'training.paths = {self.training.paths} needs training.mode = "mixed"; set that, or training.paths = 1')
        if self.exits.halting != "none" and self.model.exits == "last":
            raise ValueError(f'exits.halting = "{self.exits.halting}" needs an exit after every block; set model.exits = "all"')
        if self.exits.halting != "none" and mode != "aligned":
            raise ValueError(
                f'exits.halting = "{self.exits.halting}" learns from the states of all blocks; set training.mode = "aligned" '
                "(exits.path_weight adds mixed paths)"
            )
        if self.exits.oracle == "bleu" and self.exits.halting != "sequence":
            raise ValueError(
                'exits.oracle = "bleu" knows the best exit of a whole sentence, not of a token; set exits.halting = "sequence", '
                'or exits.oracle = "likelihood" or "correctness"'
            )
        if self.exits.halting == "none" and self.exits.path_weight > 0:
            raise ValueError('exits.path_weight needs a halting module to draw paths from; set exits.halting, as in "geometric"')
        if self.exits.halting == "sequence" and self.exits.path_weight > 0:
            raise ValueError('exits.path_weight is for tokens that leave at different blocks; exits.halting = "sequence" has none')
        if self.exits.halting != "geometric" and self.exits.halting_units > 0:
            raise ValueError(
                f'exits.halting_units = {self.exits.halting_units} needs exits.halting = "geometric", which decides after each block; '
                "set that, or exits.halting_units = 0"
            )
        if self.exits.halting == "sequence" and self.exits.kernel_width > 0:
            raise ValueError('exits.kernel_width belongs to token-level oracles (Eqs. 14-17); exits.halting = "sequence" has none')
        if self.validation.metric == "bleu" and self.validation.sentences == 0:
            raise ValueError('validation.metric = "bleu" needs validation.sentences above 0')
        return self


def exit_weights(config: Config) -> tuple[float, ...]:
    """The weights omega_n of the exits, lowest exit first (Eq. 4)."""
    weights = config.training.exit_weights
    if isinstance(weights, str):
        return tuple(WEIGHTINGS[weights](n) for n in config.model.classifier_exits)
    return tuple(weights)


def load_config(path: Path, changes: Iterable[str] = (), *, over: Config | None = None) -> Config:
    """The settings in the TOML file at `path`, with `changes` such as "model.blocks=3" applied over them.

    What the file does not name is as in `over`, where given, and else at its default.
    """
    values = read_settings(path)
    return make_config(values if over is None else _merged(over.model_dump(exclude_none=True), values), changes, origin=str(path))


def read_settings(path: Path) -> dict[str, Any]:
    """The contents of the TOML file at `path`, unchecked."""
    try:
        return read_toml(Path(path))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration at {path}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}; check the path and its permissions") from error
    except Unreadable as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both; where both have a key, that of `above`."""
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        merged[key] = _merged(inner, value) if isinstance(value, Mapping) and isinstance(inner, Mapping) else value
    return merged


def make_config(values: Mapping[str, Any], changes: Iterable[str] = (), *, origin: str = "configuration") -> Config:
    """The settings in `values`, with `changes` applied; anything wrong is a ConfigError of one sentence, which begins with the changes
    that are to blame, as in "--set model.blocks=0: ...", or with `origin` where it is the values themselves."""
    changes = list(changes)
    made = _settings_or_problem(values, changes)
    if isinstance(made, Config):
        return made
    guilty = [
        change for place, change in enumerate(changes) if _settings_or_problem(values, changes[:place] + changes[place + 1 :]) != made
    ]
    if not guilty and _settings_or_problem(values, []) != made:
        guilty = changes  # none alone: the same change twice, say
    raise ConfigError(f"{' '.join(f'--set {shortened(change)}' for change in guilty) or origin}: {made}")


def _settings_or_problem(values: Mapping[str, Any], changes: Iterable[str]) -> Config | str:
    """The settings in `values` with `changes`, or what is wrong with them."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for change in changes:
        _apply_change(merged, change)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        return _first_problem(error)


def with_changes(config: Config, changes: Iterable[str]) -> Config:
    """A copy of `config` with `changes` such as "training.updates=200" applied."""
    return make_config(config.model_dump(exclude_none=True), changes)


def save_config(config: Config, path: Path) -> None:
    """Writes every setting, defaults included, so that a later change of defaults cannot change a run."""
    write_text(path, tomli_w.dumps(config.model_dump(exclude_none=True)))


def _apply_change(values: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {shortened(change)} is not of the form section.key=value, for example model.blocks=3")
    *sections, key = name.strip().split(".")
    place: Any = values
    for section in sections:
        inner = place.get(section, {})
        if not isinstance(inner, Mapping):
            raise ConfigError(f"--set {shortened(change)}: {section} is a setting, not a section; give it a value of its own")
        place[section] = dict(inner)
        place = place[section]
    value = _parse_value(text.strip())
    if value == UNSET and _is_setting(sections, key):
        place.pop(key, None)
    else:
        place[key] = value


def _is_setting(sections: list[str], key: str) -> bool:
    """Whether there is a setting of that name to go back to its default."""
    section: type[BaseModel] | None = Config
    for name in sections:
        section = _section(section, name) if section is not None else None
    return section is not None and key in section.model_fields and _section(section, key) is None


def _section(above: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The section `name` in the section `above`, if there is one."""
    annotation = above.model_fields[name].annotation if name in above.model_fields else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _parse_value(text: str) -> Any:
    """A TOML value; text that is not TOML stands for itself, so that words need no quotes."""
    if "\n" in text:
        return text
    try:
        return parse_toml(f"value = {text}")["value"]
    except Unreadable:
        return text


def _first_problem(error: ValidationError) -> str:
    problems = error.errors()
    problem = next((each for each in problems if each["type"] != "literal_error"), problems[0])  # a union tells of every branch
    place = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        known = _known_keys(place[:-1])
        near = difflib.get_close_matches(place[-1], known, n=1)
        hint = f"did you mean {'.'.join([*place[:-1], near[0]])}?" if near else f"known here: {', '.join(known)}"
        return f"there is no setting {'.'.join(place)}; {hint}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "model_type":
        choices = ", ".join(_known_keys(place))
        return f"{'.'.join(place)} is a section of settings and cannot be {shown(problem['input'])}; set one of {choices}"
    name = ".".join(part for part in place if part not in {"literal", "list"} and not part.startswith(("literal[", "list[", "constrained")))
    return f"{name} = {shown(problem['input'])} cannot be used: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _known_keys(sections: list[str]) -> list[str]:
    section: type[BaseModel] = Config
    for name in sections:
        annotation = section.model_fields[name].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        section = annotation
    return list(section.model_fields)
