"""The settings of a model's shape and arithmetic, and what all sections of settings are."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from anydepth.limits import MOST_BLOCKS, MOST_DIM, MOST_HEADS, MOST_LENGTH

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Dim = Annotated[int, Field(ge=1, le=MOST_DIM)]
Blocks = Annotated[int, Field(ge=1, le=MOST_BLOCKS)]
Heads = Annotated[int, Field(ge=1, le=MOST_HEADS)]
Activation = Literal["relu", "gelu", "swish"]
Positions = Literal["sinusoidal", "marian"]
AttendedStates = Literal["below", "first", "shared"]


class ConfigSection(BaseModel):
    """A frozen group of settings that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class EncoderConfig(ConfigSection):
    """The encoder's own sizes."""

    blocks: Blocks = 6
    """Blocks of the encoder."""
    dim: Dim = 512
    """Width of the encoder; divisible by its heads, and even."""
    ffn_dim: Dim = 1024
    """Width of the feed-forward layer of an encoder block."""
    heads: Heads | None = None
    """Attention heads of an encoder block; none is as many as `model.heads`."""


class DecoderConfig(ConfigSection):
    """The decoder's own sizes; its number of blocks is `model.blocks`, the N of the paper."""

    dim: Dim = 256
    """Width of the decoder; divisible by `model.heads`, and even."""
    ffn_dim: Dim = 1024
    """Width of the feed-forward layer of a decoder block."""


class ModelConfig(ConfigSection):
    """A Transformer with an exit after every decoder block, or after the last one only (the
    baseline)."""

    blocks: Blocks = 6
    """Blocks of the decoder, the N of the paper."""
    heads: Heads = 4
    """Attention heads of every block; those of the encoder may have another number."""
    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    classifiers: Literal["untied", "shared", "tied"] = "untied"
    """Output matrices: one for each exit, one for all, or the target embedding itself (with a joint
    vocabulary the source's as well)."""
    exits: Literal["all", "last"] = "all"
    """An exit after every decoder block, or after the last one only (a standard Transformer)."""
    exit_adapter: Annotated[int, Field(ge=0, le=MOST_DIM)] = 0
    """Width of a small network between the state and the classifier of every exit below the last;
    0: none."""
    activation: Activation = "relu"
    """Function inside every feed-forward network: ReLU, GELU (the exact one, by erf) or swish, x
    sigmoid(x)."""
    positions: Positions = "sinusoidal"
    """Rates of the sinusoids that tell positions apart: from 1 to 1/10000, both included, or
    MarianMT's 10000^(-2i / dim)."""
    attended_states: AttendedStates = "below"
    """The states of the tokens so far that a decoder block attends to: those just below it, which are
    copied above a token's exit (the paper), or in every block but the first those after block 1, which
    are the same whatever the exits; `shared`: so that these blocks have the same keys and values of
    them, and of the source, which a token that leaves early does not have to make for each."""
    scale_embeddings: bool = True
    """Multiply embeddings by the square root of their width."""
    output_bias: bool = False
    """A number for each word of the target, shared by all exits, that is added to its score; one of
    -10,000 or lower, down to -inf, bans the word."""
    dropout: Probability = 0.3
    """Dropout of embeddings and of what each layer adds."""
    attention_dropout: Probability = 0.0
    """Dropout of attention weights."""
    max_length: Annotated[int, Field(ge=1, le=MOST_LENGTH)] = 256
    """Longest sentence in tokens; a longer source is cut, and no output is longer."""

    @model_validator(mode="after")
    def sizes_fit(self) -> "ModelConfig":
        setting = "model.heads" if self.encoder.heads is None else "model.encoder.heads"
        for side, dim, heads, divisor in (
            ("encoder", self.encoder.dim, self.encoder_heads, setting),
            ("decoder", self.decoder.dim, self.heads, "model.heads"),
        ):
            if dim % heads:
                below, above = dim - dim % heads, dim - dim % heads + heads
                choices = " or ".join(str(choice) for choice in (below, above) if choice > 0)
                raise ValueError(f"model.{side}.dim = {dim} is not divisible by {divisor} = {heads}; try {choices}")
            if dim % 2:
                raise ValueError(
                    f"model.{side}.dim = {dim} is odd; sinusoidal positions need an even width, try {dim + heads}"
                )
        return self

    @model_validator(mode="after")
    def adapters_fit(self) -> "ModelConfig":
        if self.exit_adapter and self.exits == "last":
            raise ValueError(
                f"model.exit_adapter = {self.exit_adapter} lies before the classifiers of exits below the last; set "
                'model.exits = "all", or model.exit_adapter = 0'
            )
        if self.exit_adapter and self.blocks == 1:
            raise ValueError(
                f"model.exit_adapter = {self.exit_adapter} lies before the classifiers of exits below the last, and "
                "model.blocks = 1 leaves none; set model.exit_adapter = 0"
            )
        return self

    @property
    def encoder_heads(self) -> int:
        """The attention heads of an encoder block."""
        return self.heads if self.encoder.heads is None else self.encoder.heads

    @property
    def attends_first(self) -> bool:
        """Whether the decoder blocks above the first attend to the states after it."""
        return self.attended_states != "below"

    @property
    def key_blocks(self) -> int:
        """How many of the lowest decoder blocks make keys and values of their own; a higher one has
        those of the last of these."""
        return min(2, self.blocks) if self.attended_states == "shared" else self.blocks

    def keys_of(self, n: int) -> int:
        """The block whose keys and values block n has."""
        return min(n, self.key_blocks)

    @property
    def classifier_exits(self) -> tuple[int, ...]:
        """The exits that have a classifier, lowest first."""
        return tuple(range(1, self.blocks + 1)) if self.exits == "all" else (self.blocks,)
