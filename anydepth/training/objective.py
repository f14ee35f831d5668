"""The training objective: from a batch to the sums that are minimised (section 2.2 and Eq. 7)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from anydepth.bleu_oracle.oracle import score_oracle_targets
from anydepth.bleu_oracle.table import ScoreTable
from anydepth.config.schema import Config, exit_weights
from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import exit_loss
from anydepth.exits.oracles import UnscoredError, oracle_exits
from anydepth.model.gradients import supervision_scales
from anydepth.model.linear import round_products
from anydepth.text.batches import Batch
from anydepth.training.instructions import avoid_missing_instructions
from anydepth.training.losses import Teacher, chunked_cross_entropy
from anydepth.training.precisions import PRECISIONS

OWN_SHARE = 0.5  # of a token's loss in confident training: that of the exit where it leaves


@dataclass(frozen=True)
class ExitRows:
    """The states that one exit's classifier has to predict from, with what they should predict."""

    n: int
    hidden: Float[Tensor, "row dim"]
    targets: Int[Tensor, " row"]
    weight: float | Float[Tensor, " row"]
    gradient_scale: float = 1.0


class BatchSums(NamedTuple):
    """Sums over the target tokens of a batch; only `loss`, which is minimised, carries a gradient.

    The three of the halting module are empty, and its loss 0, where there is none.
    """

    loss: Float[Tensor, ""]
    likelihoods: Float[Tensor, " exit"]  # each exit's negative log-likelihood
    rows: Int[Tensor, " exit"]  # the tokens that it was computed from
    exit_loss: Float[Tensor, ""]
    oracle_exits: Int[Tensor, " exit"]  # how many tokens the oracle sends to each exit
    halting_exits: Int[Tensor, " exit"]  # and how many the halting module; the oracle may know only some


class ScoredRows(NamedTuple):
    """The decoding loss of some rows, and without gradient what each exit says of its own."""

    total: Float[Tensor, ""]
    log_likelihoods: list[Float[Tensor, " row"]]
    correct: list[Bool[Tensor, " row"]]  # empty where no oracle looks at it


class TrainingObjective(nn.Module):
    """The one module that data-parallel training wraps: a batch in, sums of losses out.

    Everything returned is a sum over target tokens; the caller divides by the tokens of the whole
    global batch. `scores` are those of the training pairs at each exit, which the BLEU oracle
    needs.
    """

    def __init__(self, model: AdaptiveTransformer, config: Config, scores: ScoreTable | None = None) -> None:
        super().__init__()
        assert scores is not None or config.exits.oracle != "bleu", "the BLEU oracle chooses by scores"
        self.scores = scores
        self.model = model
        if "bfloat16" in (config.training.precision, config.training.block_precision):
            avoid_missing_instructions()
        round_products(model, PRECISIONS[config.training.block_precision])
        if config.training.trunk == "frozen":
            model.freeze_trunk()
        self.training_config = config.training
        self.exits_config = config.exits
        self.exits = config.model.classifier_exits
        total = sum(exit_weights(config))
        self.weights = tuple(weight / total for weight in exit_weights(config))
        ratio = config.training.gradient_ratio
        self.supervision = (1.0,) * model.blocks if ratio is None else supervision_scales(ratio, model.blocks)
        self.between_blocks = None if ratio is None else tuple(1 / scale for scale in self.supervision[1:])

    def forward(self, batch: Batch, seed: int, update_seed: int = 0) -> BatchSums:
        """L_dec (Eqs. 4 and 5), or L_dec + alpha L_exit (Eq. 7) with a halting module, and the sums
        to report.

        Random choices depend on `seed`, but which blocks are left out depends on `update_seed`,
        which all batches of an update share.
        """
        memory = self.model.encode(batch.source, batch.source_mask)
        match self.training_config.mode:
            case "layerdrop":
                kept = kept_blocks(self.model.blocks, self.training_config.layer_drop, update_seed)
                scored = self.decoding_loss([self.last_rows(batch, memory, kept)])
                return _sums(scored.total + 0.0 * self.sum_of_skipped_weights(kept), scored)
            case "mixed":
                scored = self.decoding_loss(self.mixed_rows(batch, memory, self.uniform_paths(batch, seed)))
                return _sums(scored.total, scored)
            case "confident":
                scored = self.decoding_loss(self.confident_rows(batch, memory, seed))
                return _sums(scored.total, scored)
            case "aligned":
                return self.aligned_loss(batch, memory, seed)
            case other:
                raise UsageError(f"there is no training.mode {other!r}; known: aligned, mixed, confident, layerdrop")

    def aligned_loss(self, batch: Batch, memory: Float[Tensor, "batch source encoder_dim"], seed: int) -> BatchSums:
        """L_dec of aligned training (Eq. 4), and with a halting module the joint loss (Eq. 7)."""
        states = self.model.decode(batch.target_inputs, memory, batch.source_mask, gradient_scales=self.between_blocks)
        is_for_oracle = self.model.halting is not None and self.scores is None
        rows = self.aligned_rows(batch, states, seed)
        scored = self.decoding_loss(rows, is_for_oracle=is_for_oracle, teacher=self.full_depth_teacher(rows[-1]))
        return (
            _sums(scored.total, scored)
            if self.model.halting is None
            else self.joint_loss(batch, memory, states, scored, seed)
        )

    def joint_loss(
        self,
        batch: Batch,
        memory: Float[Tensor, "batch source encoder_dim"],
        states: Float[Tensor, "block batch time dim"],
        scored: ScoredRows,
        seed: int,
    ) -> BatchSums:
        """L_dec + alpha L_exit (Eq. 7), whose exit part reaches the encoder and decoder unless
        `stop_gradient` ends it at their states.

        Beyond the paper, `path_weight` adds the mixed loss (Eq. 5) of one path whose exits are
        drawn from q, so that the upper blocks learn to read states that were copied as they will
        be.
        """
        config, halting = self.exits_config, self.model.halting
        assert halting is not None
        oracle, has_oracle = self.oracle_targets(batch, scored)
        seen = (states.detach(), memory.detach()) if config.stop_gradient else (states, memory)
        log_probs = halting.exit_log_probs(*seen, batch.source_mask)
        own_loss = exit_loss(log_probs, oracle, has_oracle)
        total = scored.total + config.exit_loss_weight * own_loss
        if config.path_weight > 0:
            paths = drawn_exits(log_probs.detach(), seed)
            total = total + config.path_weight * self.decoding_loss(self.mixed_rows(batch, memory, paths)).total
        chosen = halting.default_exits(log_probs.detach())
        counted = ((oracle, has_oracle), (chosen, batch.target_mask))
        counts = [torch.bincount(exits[where] - 1, minlength=self.model.blocks) for exits, where in counted]
        return _sums(total, scored)._replace(
            exit_loss=own_loss.detach(), oracle_exits=counts[0], halting_exits=counts[1]
        )

    def oracle_targets(
        self, batch: Batch, scored: ScoredRows
    ) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
        """The oracle's exits, and the targets that it has one for: all, or with the BLEU oracle
        those of sentences that were scored.

        The exit loss of the others is 0 and they count in its denominator, so that the gradient
        stays a sum over sentences.
        """
        if self.scores is None:
            return self.oracle(batch, scored), batch.target_mask
        return score_oracle_targets(batch, self.scores, exit_penalty=self.exits_config.exit_penalty)

    def oracle(self, batch: Batch, scored: ScoredRows) -> Int[Tensor, "batch time"]:
        """The exit q* that each target should have been given, by what every exit says of it
        without label smoothing, in float32."""
        shape = (len(self.exits), *batch.targets.shape)
        likelihoods, correct = (
            scored.total.new_zeros(shape),
            torch.zeros(shape, dtype=torch.bool, device=batch.targets.device),
        )
        likelihoods[:, batch.target_mask] = torch.stack(scored.log_likelihoods)
        correct[:, batch.target_mask] = torch.stack(scored.correct)
        if bool(likelihoods.isnan().any()):
            block, sentence, time = likelihoods.isnan().nonzero()[0].tolist()
            raise UnscoredError(
                f"the oracle cannot choose: the log-likelihood at exit {block + 1} is not a number at token "
                f"{time + 1} of training pair "
                f"{batch.indices[sentence] + 1:,}; lower training.learning_rate (now "
                f"{self.training_config.learning_rate}) "
                "or look at that pair"
            )
        return oracle_exits(self.exits_config, likelihoods, correct, batch.target_mask)

    def aligned_rows(self, batch: Batch, states: Float[Tensor, "block batch time dim"], seed: int) -> list[ExitRows]:
        """Every exit predicts every target from states that all went through all blocks below (Eq.
        4).

        Beyond the paper, with `exit_share` below 1 an exit below the last predicts each target with
        that chance, and what it predicts counts so much more.
        """
        # unbind, because the gradient of indexing would fill a tensor of all blocks for each of
        # them
        own = states.unbind()
        real, share, generator = (
            real_positions(batch.target_mask),
            self.training_config.exit_share,
            path_generator(seed),
        )
        every = []
        for n, weight in zip(self.exits, self.weights, strict=True):
            chosen = real
            if share < 1 and n < self.exits[-1]:
                chosen = real[(torch.rand(len(real), generator=generator) < share).to(real.device)]
                weight /= share
            hidden = own[n - 1].flatten(0, 1).index_select(0, chosen)
            every.append(ExitRows(n, hidden, batch.targets.flatten()[chosen], weight, self.supervision[n - 1]))
        return every

    def last_rows(
        self, batch: Batch, memory: Float[Tensor, "batch source encoder_dim"], kept: Collection[int]
    ) -> ExitRows:
        """The last classifier predicts every target from the state after the top one of the `kept`
        blocks."""
        states = self.model.decode(batch.target_inputs, memory, batch.source_mask, kept=kept)
        hidden = states[-1].flatten(0, 1).index_select(0, real_positions(batch.target_mask))
        return ExitRows(self.exits[-1], hidden, batch.targets[batch.target_mask], 1.0)

    def sum_of_skipped_weights(self, kept: Collection[int]) -> Float[Tensor, ""]:
        """The sum of all weights of the blocks left out. Times 0 it gives them a gradient of 0,
        which workers exchange and Adam expects."""
        others = [block for n, block in enumerate(self.model.decoder, 1) if n not in kept]
        return sum(
            (parameter.sum() for block in others for parameter in block.parameters()),
            self.model.target_embedding.weight.new_zeros(()),
        )

    def uniform_paths(self, batch: Batch, seed: int) -> Int[Tensor, "path time"]:
        """M exits for each target, drawn from U{1..N} (Eq. 5); the rows are the batch, M times."""
        generator = path_generator(seed)
        shape = (self.training_config.paths * len(batch.targets), batch.targets.shape[1])
        return torch.randint(1, self.model.blocks + 1, shape, generator=generator).to(batch.targets.device)

    def mixed_rows(
        self, batch: Batch, memory: Float[Tensor, "batch source encoder_dim"], exits: Int[Tensor, "path time"]
    ) -> list[ExitRows]:
        """Every target is predicted at one given exit on each of M paths (Eq. 5), all paths in one
        pass over M copies."""
        paths = len(exits) // len(batch.targets)
        states = self.model.decode(
            batch.target_inputs.repeat(paths, 1),
            memory.repeat(paths, 1, 1),
            batch.source_mask.repeat(paths, 1),
            exits=exits,
        )
        mask = batch.target_mask.repeat(paths, 1)
        # (row, dim): h_t^{n_t}, copied up to the last block
        hidden = states[-1].flatten(0, 1).index_select(0, real_positions(mask))
        targets, exits = batch.targets.repeat(paths, 1)[mask], exits[mask]
        return [ExitRows(n, hidden[exits == n], targets[exits == n], 1 / paths) for n in self.exits]

    def confident_rows(
        self, batch: Batch, memory: Float[Tensor, "batch source encoder_dim"], seed: int
    ) -> list[ExitRows]:
        """Every exit predicts the targets that reach it, where tokens leave as the confidence policy
        would let them, by one threshold for each sentence.

        Beyond the paper: upper blocks learn from the hard tokens and read states that are copied
        where they will be. A token's loss is half that of the exit where it leaves and half that of
        the exits it reached, by their weights omega_n.
        """
        lowest = self.training_config.lowest_confidence
        thresholds = drawn_thresholds(len(batch.targets), lowest, seed).to(batch.targets.device)

        def leaves(n: int, states: Tensor, running: Tensor) -> Tensor:
            looked = running & batch.target_mask
            is_sure = self.top_probabilities(n, states[looked]) > thresholds[:, None].expand_as(running)[looked]
            return torch.zeros_like(running).masked_scatter(looked, is_sure)

        states, exits = self.model.decode_deciding(batch.target_inputs, memory, batch.source_mask, leaves)
        rows = []
        for n, weight, own in zip(self.exits, self.weights, states.unbind(), strict=True):
            reached = real_positions(batch.target_mask & (exits >= n))
            hidden, left = own.flatten(0, 1).index_select(0, reached), exits.flatten()[reached] == n
            weights = (1 - OWN_SHARE) * weight + OWN_SHARE * left.to(hidden.dtype)
            rows.append(ExitRows(n, hidden, batch.targets.flatten()[reached], weights))
        return rows

    @torch.no_grad()
    def top_probabilities(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """The probability of the best word of each state by the classifier of exit n."""
        precision = PRECISIONS[self.training_config.precision]
        bias = self.model.output_bias
        scored, classifier = self.model.scored_states(n, hidden).to(precision), self.model.classifier(n).to(precision)
        logits = F.linear(scored, classifier, None if bias is None else bias.to(precision))
        return torch.softmax(logits, dim=1).amax(dim=1).float()

    def decoding_loss(
        self, every: list[ExitRows], *, is_for_oracle: bool = False, teacher: Teacher | None = None
    ) -> ScoredRows:
        """The weighted sum of the exits' losses (Eqs. 4 and 5); exits that share a classifier are
        scored together.

        For an oracle they are scored in float32 whatever `training.precision`. A `teacher` teaches all
        exits but the last; each has the rows of the same targets then.
        """
        total = every[0].hidden.new_zeros(())
        likelihoods: list[Tensor] = []
        correct: list[Tensor] = []
        for group in self.scored_together(every, is_taught=teacher is not None):
            weights = torch.cat([rows.hidden.new_ones(len(rows.hidden)) * rows.weight for rows in group])
            scales = torch.cat([rows.hidden.new_full((len(rows.hidden),), rows.gradient_scale) for rows in group])
            scored = chunked_cross_entropy(
                torch.cat([self.model.scored_states(rows.n, rows.hidden) for rows in group]),
                self.model.classifier(group[0].n),
                torch.cat([rows.targets for rows in group]),
                weights,
                label_smoothing=self.training_config.label_smoothing,
                bias=self.model.output_bias,
                gradient_weights=weights * scales,
                precision=PRECISIONS[self.training_config.precision],
                is_for_oracle=is_for_oracle,
                teacher=None if group[0].n == self.model.blocks else teacher,
            )
            total = total + scored.total
            sizes = [len(rows.hidden) for rows in group]
            likelihoods += torch.split(scored.log_likelihoods, sizes)
            correct += [] if scored.correct is None else torch.split(scored.correct, sizes)
        return ScoredRows(total, likelihoods, correct)

    def scored_together(self, every: list[ExitRows], *, is_taught: bool) -> list[list[ExitRows]]:
        """The exits that share a classifier; the last one is apart where it is not taught as the others
        are, or does not learn."""
        if self.model.config.classifiers == "untied":
            return [[rows] for rows in every]
        is_apart = is_taught or self.model.is_trunk_frozen
        return [every[:-1], every[-1:]] if is_apart and len(every) > 1 else [every]

    def full_depth_teacher(self, last: ExitRows) -> Teacher | None:
        """The last exit as the teacher of those below, where it is to be one."""
        weight = self.training_config.full_depth_weight
        if weight == 0:
            return None
        bias, classifier = self.model.output_bias, self.model.classifier(last.n)
        return Teacher(last.hidden.detach(), classifier.detach(), None if bias is None else bias.detach(), weight)


def kept_blocks(blocks: int, layer_drop: float, seed: int) -> tuple[int, ...]:
    """The numbers of the blocks that run: each is left out with probability `layer_drop`, but never
    all of them.

    LayerDrop (Fan, Grave, Joulin: Reducing Transformer Depth on Demand with Structured Dropout,
    2020), a rival of the paper's training.
    """
    draws = torch.rand(blocks, generator=torch.Generator().manual_seed(seed ^ 2))
    kept = tuple(n for n, draw in enumerate(draws.tolist(), 1) if draw >= layer_drop)
    return kept or (int(draws.argmax()) + 1,)


def path_generator(seed: int) -> torch.Generator:
    """Random numbers for the exits of paths: others than those of dropout, which `seed` itself
    gives."""
    return torch.Generator().manual_seed(seed ^ 1)


def drawn_thresholds(sentences: int, lowest: float, seed: int) -> Float[Tensor, " sentence"]:
    """A threshold of confidence for each sentence, drawn between `lowest` and 1."""
    return lowest + (1 - lowest) * torch.rand(sentences, generator=path_generator(seed))


def drawn_exits(exit_log_probs: Float[Tensor, "block batch time"], seed: int) -> Int[Tensor, "batch time"]:
    """An exit for every position, drawn from q; the draw depends on `seed` alone, not on the
    device."""
    generator = path_generator(seed)
    shape = exit_log_probs.shape[1:]
    uniform = torch.rand(shape, generator=generator).to(exit_log_probs.device)
    # (block - 1, batch, time): exits that the draw lies beyond
    below = exit_log_probs.exp().cumsum(dim=0)[:-1] <= uniform
    return below.sum(dim=0) + 1


def _sums(loss: Tensor, scored: ScoredRows) -> BatchSums:
    """The sums of a decoding loss alone."""
    likelihoods = torch.stack([-part.sum() for part in scored.log_likelihoods])
    rows = torch.tensor([len(part) for part in scored.log_likelihoods], device=loss.device)
    nothing = rows.new_zeros(0)
    return BatchSums(loss, likelihoods, rows, loss.new_zeros(()), nothing, nothing)


def real_positions(mask: Bool[Tensor, "batch time"]) -> Int[Tensor, " row"]:
    """The numbers of the real tokens among the flattened positions."""
    return mask.flatten().nonzero()[:, 0]
