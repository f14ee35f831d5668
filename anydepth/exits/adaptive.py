"""The Transformer with its halting module."""

from typing import Self

from anydepth.config.schema import Config
from anydepth.exits.halting import Halting, make_halting
from anydepth.model.transformer import Transformer


class AdaptiveTransformer(Transformer):
    """A Transformer and the module that chooses its exits, if it has one; their weights are trained
    and stored together."""

    is_trunk_frozen = False

    def __init__(self, config: Config, *, source_vocab: int, target_vocab: int, is_joint: bool) -> None:
        super().__init__(config.model, source_vocab=source_vocab, target_vocab=target_vocab, is_joint=is_joint)
        self.halting: Halting | None = make_halting(config)

    def freeze_trunk(self) -> None:
        """Leaves nothing to train but the adapters of the exits and the halting module; all else is
        as it is while translating, from now on."""
        self.is_trunk_frozen = True
        self.requires_grad_(False)
        self.exit_adapters.requires_grad_()
        if self.halting is not None:
            self.halting.requires_grad_()
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Turns dropout and rounding on or off; in a frozen trunk they stay off."""
        return super().train(mode and not self.is_trunk_frozen)
