"""The training loop: one update after the other until the budget is spent."""

import math
import time
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from torch import Tensor

from anydepth.bleu_oracle.table import training_scores
from anydepth.errors import Interrupted, RunError, TrainingError
from anydepth.evaluation.measure import validation_scorer
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.oracles import UnscoredError
from anydepth.messages.times import describe_seconds
from anydepth.model.checkpoint import average_tensors, load_weights, model_tensors, not_finite, save_tensors
from anydepth.runs.models import check_shape, new_model, start_from
from anydepth.runs.run import INTERRUPTED, Run
from anydepth.text.batches import Batch, BatchStream, NoSuchPlaceError, Position, training_batches
from anydepth.text.prepared import PreparedData
from anydepth.training.distributed import Workers
from anydepth.training.objective import TrainingObjective
from anydepth.training.optimizer import make_optimizer
from anydepth.training.regrouping import Grouping, regrouped
from anydepth.training.reporting import RecentMeans, Reporter, describe_exit_figures, describe_exits
from anydepth.training.schedule import budget_used, learning_rate
from anydepth.training.signals import StopRequest
from anydepth.training.state import TrainingProgress, load_state, save_state, state_tensors
from anydepth.training.update import (
    UpdateSums,
    accumulate_gradients,
    bad_slots,
    clip_and_step,
    described_failure,
)
from anydepth.training.validation import validation_exit_loss, validation_losses

ScoreExits = Callable[[AdaptiveTransformer], list[float]]


class Training:
    """One run of training: what changes while it goes on, and the steps that change it."""

    def __init__(self, run: Run, data: PreparedData, workers: Workers, reporter: Reporter) -> None:
        self.run, self.data, self.workers, self.reporter = run, data, workers, reporter
        self.config = run.config
        self.score_exits: ScoreExits = validation_scorer(data, self.config)
        if run.seal.has(run.state_file):
            check_shape(run, run.state_file, prefix="model.")
        torch.manual_seed(self.config.training.seed)
        self.model = new_model(run).train()
        if not run.seal.has(run.state_file) and (run.seal.has(run.origin_file) or run.seal.has(run.start_file)):
            start_from(self.model, run.start_file)
        self.model.to(workers.device)
        self.scores = training_scores(run, self.config)
        self.objective = workers.wrap(
            TrainingObjective(self.model, self.config, self.scores.train if self.scores else None)
        )
        self.optimizer = make_optimizer(self.model, self.config)
        self.progress = TrainingProgress()
        self.stop = StopRequest()
        self.stream = BatchStream(
            data.pairs("train"), max_tokens=self.config.training.batch_tokens, seed=self.config.training.seed
        )

    def resume(self) -> None:
        """Goes back to the last saved state."""
        self.progress = load_state(self.run.state_file, self.model, self.optimizer)
        self.reporter.drop_metrics_after(self.progress.update)
        if self.workers.is_main:
            self.run.seal.remove(file for update, file in self.run.checkpoints() if update > self.progress.update)
        self.remove_other_bests()
        if budget_used(self.config.training, self.progress.update, seconds=self.progress.seconds) >= 1:
            more = "to train on, raise training.updates or --minutes, which count from the beginning of the run"
            self.reporter.say(f"the budget was spent after update {self.progress.update:,}; {more}")
        else:
            self.reporter.say(f"going on after update {self.progress.update:,}")
        before = Grouping(self.progress.workers, self.progress.accumulation)
        if not before.workers and self.stream.pools > 1:
            self.reporter.say(
                "warning: this state is of a version that read so many pairs in another order, so some pairs of this "
                "epoch come twice and some not at all; from the next epoch on every pair comes once"
            )
        if before.workers and (text := regrouped(before, self.grouping, batch_tokens=self.stream.max_tokens)):
            self.reporter.say(text)

    @property
    def grouping(self) -> Grouping:
        """How the batches of an update are dealt out."""
        return Grouping(self.workers.world, self.config.training.accumulation)

    def go(self) -> None:
        """Trains until the budget is spent, patience is lost or the user interrupts; leaves
        model.safetensors behind."""
        config, workers, progress = self.config.training, self.workers, self.progress
        progress.workers, progress.accumulation = workers.world, config.accumulation
        batches = training_batches(
            self.stream, progress.position, rank=workers.rank, world=workers.world, accumulation=config.accumulation
        )
        spent_before, started = progress.seconds, time.monotonic()
        recent = RecentMeans()
        with self.stop.on_signals():
            while not self.is_over():
                mine, position = self.next_batches(batches)
                update, rate = progress.update + 1, learning_rate(config, progress.update + 1, seconds=progress.seconds)
                sums = accumulate_gradients(self.objective, mine, workers, seed=config.seed, update=update)
                if sums.is_finite and clip_and_step(self.optimizer, list(self.model.parameters()), config, rate):
                    progress.left_out_in_a_row = 0
                    recent.add(sums)
                else:
                    self.leave_out(sums)
                progress.update, progress.position = update, position
                progress.seconds = spent_before + time.monotonic() - started
                if recent.tokens:
                    self.report(recent, rate)
                if update % self.config.validation.every == 0:
                    self.validate()
                    recent.pause()
                if update % config.save_every == 0:
                    self.save()
            self.end()

    def next_batches(self, batches: Iterator[tuple[list[Batch], Position]]) -> tuple[list[Batch], Position]:
        """The batches of the next update; a place that the data does not have came from
        the saved state."""
        try:
            return next(batches)
        except NoSuchPlaceError as error:
            raise RunError(f"{self.run.state_file} does not fit its data: {error}") from error

    def leave_out(self, sums: UpdateSums) -> None:
        """Does without the update after the present one, whose loss or gradient is not a number,
        and tells so; beyond what the settings allow, training stops with a state instead."""
        self.optimizer.zero_grad()
        self.check_weights()  # with weights that are not numbers, no update will ever be one
        config, progress, update = self.config.training, self.progress, self.progress.update + 1
        bad = bad_slots(sums, self.workers)
        failure = ""
        if self.workers.is_main:
            batches = [
                indices for indices, _ in islice(self.stream.from_position(progress.position), self.grouping.batches)
            ]
            failure = described_failure(batches, bad, self.source_text)
        for limit, count in (
            ("left_out_in_a_row", progress.left_out_in_a_row),
            ("left_out", progress.left_out),
        ):
            if count >= getattr(config, limit):
                self.save_to_resume()
                left = f"{count:,} were left out before it, as many as training.{limit} allows"
                raise self.workers.reported_by_main(
                    TrainingError(f"update {update:,} cannot be made: {failure}; {left}; {self.advice()}")
                )
        progress.left_out, progress.left_out_in_a_row = progress.left_out + 1, progress.left_out_in_a_row + 1
        counted = {"left_out": progress.left_out, "in_a_row": progress.left_out_in_a_row}
        self.reporter.say(
            f"update {update:,} is left out: {failure}; left out so far: {progress.left_out:,}, "
            f"{progress.left_out_in_a_row:,} in a row"
        )
        self.reporter.measured(
            "left out", {"update": update, "reason": failure, **counted, "seconds": round(progress.seconds, 1)}
        )

    def is_over(self) -> bool:
        """Whether to stop before the next update. Every worker gives the same answer, by the main
        worker's clock."""
        config, progress = self.config.training, self.progress
        has_lost_patience = config.patience is not None and progress.validations_since_best >= config.patience
        is_spent = budget_used(config, progress.update, seconds=progress.seconds) >= 1
        votes = [float(has_lost_patience or is_spent), progress.seconds] if self.workers.is_main else [0.0, 0.0]
        wishes = torch.tensor([*votes, float(self.stop.is_asked)], dtype=torch.float64, device=self.workers.device)
        ended, progress.seconds, asked = (float(wish) for wish in self.workers.sum(wishes))
        if asked > 0:  # and never back to False: a signal may have come since the vote
            self.stop.is_asked = True
        return ended > 0 or asked > 0

    def report(self, recent: "RecentMeans", rate: float) -> None:
        """Moves the bar, and every `log_every` updates writes the mean loss of each exit since the
        last time."""
        progress, used = (
            self.progress,
            budget_used(self.config.training, self.progress.update, seconds=self.progress.seconds),
        )
        left = describe_seconds(progress.seconds * (1 - used) / used if used else 0.0)
        self.reporter.progress(
            used, f"nll {recent.losses[0]:.2f}-{recent.losses[-1]:.2f}  {recent.speed:,.0f} tokens/s  {left} left"
        )
        if progress.update % self.config.training.log_every:
            return
        losses, epoch = recent.losses, progress.position.epoch + 1
        self.reporter.say(
            f"update {progress.update:,}  epoch {epoch}  nll "
            f"{describe_exits(losses)}{describe_exit_figures(recent.exit_figures)}  "
            f"rate {rate:.2e}  {recent.speed:,.0f} tokens/s  {left} left"
        )
        figures = {
            "update": progress.update,
            "epoch": epoch,
            "loss": recent.loss,
            "nll": losses,
            "rate": rate,
        } | recent.exit_figures
        self.reporter.measured(
            "train", figures | {"tokens_per_second": round(recent.speed), "seconds": round(progress.seconds, 1)}
        )
        recent.restart()

    def validate(self) -> None:
        """Measures the validation set and keeps the weights if they are the best so far."""
        progress, config = self.progress, self.config.validation
        self.check_weights()
        if self.workers.is_main:
            self.model.eval()
            losses = validation_losses(self.model, self.data.pairs("valid"), batch_tokens=config.batch_tokens)
            exits = self.validation_exit_figures()
            bleu = self.score_exits(self.model) if config.sentences else []
            self.model.train()
            exit_text = f"  exit loss {exits['exit_loss']:.3f}" if exits else ""
            text = f"update {progress.update:,}  valid nll {describe_exits(losses)}{exit_text}"
            self.reporter.say(text + (f"  BLEU {describe_exits(bleu, digits=1)}" if bleu else ""))
            if all(math.isfinite(each) for each in (*losses, *exits.values())):  # what reads metrics refuses others
                self.reporter.measured(
                    "valid",
                    {"update": progress.update, "nll": losses, "bleu": bleu, "seconds": round(progress.seconds, 1)}
                    | exits,
                )
            weighed = self.config.exits.exit_loss_weight * exits.get("exit_loss", 0.0)
            trained = losses[-1:] if self.config.training.mode == "layerdrop" else losses
            value = -max(bleu) if config.metric == "bleu" else sum(trained) / len(trained) + weighed
            progress.validations_since_best += 1
            if math.isfinite(value) and (progress.best is None or value < progress.best):
                progress.best, progress.best_update, progress.validations_since_best = value, progress.update, 0
                save_tensors(
                    self.run.best_file(progress.update), model_tensors(self.model), {"update": str(progress.update)}
                )
        progress.validated_update = progress.update
        self.workers.wait()

    def validation_exit_figures(self) -> dict[str, float]:
        """The exit loss of the halting module on the validation set, where there is one."""
        if self.model.halting is None:
            return {}
        pairs, batch_tokens = self.data.pairs("valid"), self.config.validation.batch_tokens
        scores = self.scores.valid if self.scores else None
        try:
            loss = validation_exit_loss(self.model, pairs, self.config.exits, batch_tokens=batch_tokens, scores=scores)
        except UnscoredError:
            loss = math.nan
        return {"exit_loss": loss}

    def save(self) -> None:
        """Saves a state to resume from, and the weights of the last checkpoints for averaging."""
        self.check_weights()
        if not self.workers.is_main or self.progress.update == 0:
            return
        checkpoint = self.run.checkpoint_file(self.progress.update)
        checkpoint.parent.mkdir(exist_ok=True)  # an empty folder gets lost in archives and in git
        save_tensors(checkpoint, model_tensors(self.model))
        self.save_to_resume()
        self.run.seal.remove(file for _, file in self.run.checkpoints()[: -self.config.training.average])

    def save_to_resume(self) -> None:
        """Saves a state to resume from, and no checkpoint: an interrupted run must average the same
        checkpoints as one without a pause."""
        self.check_weights()
        if self.workers.is_main and self.progress.update > 0:
            save_state(self.run.state_file, self.model, self.optimizer, self.progress)
            self.remove_other_bests()
            self.run.seal.add_metrics(self.run.metrics_file.read_bytes())

    def remove_other_bests(self) -> None:
        """Removes the best weights that the state on disk does not name: no longer needed, or of
        updates that are done again."""
        if self.workers.is_main:
            kept = self.run.best_file(self.progress.best_update)
            self.run.seal.remove(file for file in self.run.best_files() if file != kept)

    def check_weights(self) -> None:
        """Stops every worker before weights or moments of Adam that are not numbers are saved or
        measured."""
        stored = {
            name.removeprefix("model."): tensor for name, tensor in state_tensors(self.model, self.optimizer).items()
        }
        if bad := not_finite(stored):
            raise self.workers.reported_by_main(
                TrainingError(
                    f"the weights are not numbers after update {self.progress.update:,} ({bad}) and were not saved; "
                    f"{self.advice()}"
                )
            )

    def end(self) -> None:
        """Saves a state and says how to resume, or measures once more and chooses the final
        weights."""
        progress = self.progress
        if self.stop.is_asked:
            self.save_to_resume()
            kept = self.save_unfinished_weights() if self.workers.is_main else ""
            self.workers.wait()
            raise self.workers.reported_by_main(
                Interrupted(
                    f"stopped after update {progress.update:,}; {kept}go on with `anydepth train --resume --to "
                    f"{self.run.folder}`"
                )
            )
        if progress.validated_update != progress.update:
            self.validate()
        self.save()
        if not self.workers.is_main:
            return
        choice = self.config.training.final
        if choice == "average":
            files = [file for update, file in self.run.checkpoints() if update <= progress.update]
            tensors, origin = average_tensors(files), f"the average of the last {len(files)} checkpoints"
        elif choice == "best" and progress.best_update:
            tensors, origin = self.best_weights()
        else:
            tensors, origin = model_tensors(self.model), "the last update"
        save_tensors(self.run.weights_file, tensors)
        spent = describe_seconds(progress.seconds)
        self.reporter.say(
            f"trained {progress.update:,} updates in {spent}; {self.run.weights_file} has the weights of {origin}"
        )

    def best_weights(self) -> tuple[dict[str, Tensor], str]:
        """The weights of the best validation, and what to call them."""
        update = self.progress.best_update
        return load_weights(self.run.best_file(update))[0], f"the best validation (update {update:,})"

    def save_unfinished_weights(self) -> str:
        """Saves weights to translate with until training is resumed, and returns a text that says
        which; those of a training that ended stay."""
        run, progress = self.run, self.progress
        if progress.update == 0 or (run.weights_file.exists() and run.interrupted_at() is None):
            return ""
        is_best = self.config.training.final == "best" and progress.best_update > 0
        tensors, origin = self.best_weights() if is_best else (model_tensors(self.model), "the last update")
        save_tensors(run.weights_file, tensors, {INTERRUPTED: str(progress.update), "weights": origin})
        return f"{run.weights_file} has the weights of {origin} so far; "

    def advice(self) -> str:
        """What to do when a loss or a weight is not a number."""
        saved = (
            f"{self.run.state_file} still holds the last good state"
            if self.run.state_file.exists()
            else "nothing was saved yet"
        )
        return (
            f"{saved}; lower training.learning_rate (now {self.config.training.learning_rate}) or look at those pairs"
        )

    def source_text(self, pair: int) -> str:
        """The source side of a training pair."""
        return self.data.source_tokenizer.decode(self.data.pairs("train").source(pair).tolist())
