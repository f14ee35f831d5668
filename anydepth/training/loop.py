"""The training loop: one update after the other until the budget is spent."""

import time
from collections.abc import Callable

import torch

from anydepth.errors import AnydepthError
from anydepth.model.checkpoint import average_tensors, load_tensors, model_tensors, save_tensors
from anydepth.model.run import Run
from anydepth.model.transformer import Transformer
from anydepth.text.batches import BatchStream, training_batches
from anydepth.text.prepare import PreparedData
from anydepth.training.distributed import Workers
from anydepth.training.objective import TrainingObjective
from anydepth.training.reporting import Reporter, describe_exits, describe_time
from anydepth.training.schedule import budget_used, learning_rate
from anydepth.training.signals import StopRequest
from anydepth.training.state import Progress, load_state, make_optimizer, save_state
from anydepth.training.update import UpdateSums, accumulate_gradients, clip_and_step, failure
from anydepth.training.validation import validation_losses

ScoreExits = Callable[[Transformer], list[float]]


class Interrupted(AnydepthError):  # noqa: N818
    """The user stopped the run."""

    exit_code = 130


class Training:
    """One run of training: what changes while it goes on, and the steps that change it.

    `score_exits` gives the BLEU of every exit on some validation sentences; it is passed in because scoring lies beyond training.
    """

    def __init__(self, run: Run, data: PreparedData, workers: Workers, reporter: Reporter, score_exits: ScoreExits) -> None:
        self.run, self.data, self.workers, self.reporter, self.score_exits = run, data, workers, reporter, score_exits
        self.config = run.config
        torch.manual_seed(self.config.training.seed)
        self.model = run.new_model().to(workers.device).train()
        self.objective = workers.wrap(TrainingObjective(self.model, self.config))
        self.optimizer = make_optimizer(self.model, self.config.training)
        self.progress = Progress()
        self.reported_seconds = 0.0
        self.stop = StopRequest()

    def resume(self) -> None:
        """Goes back to the last saved state."""
        self.progress = load_state(self.run.state_file, self.model, self.optimizer)
        self.reported_seconds = self.progress.seconds
        self.reporter.forget_after(self.progress.update)
        self.reporter.say(f"going on after update {self.progress.update:,}")

    def go(self) -> None:
        """Trains until the budget is spent, patience is lost or the user interrupts; leaves model.safetensors behind."""
        config, workers, progress = self.config.training, self.workers, self.progress
        stream = BatchStream(self.data.pairs("train"), max_tokens=config.batch_tokens, seed=config.seed)
        batches = training_batches(stream, progress.position, rank=workers.rank, world=workers.world, accumulation=config.accumulation)
        spent_before, started = progress.seconds, time.monotonic()
        recent: list[UpdateSums] = []
        with self.stop.on_signals():
            while not self.is_over():
                mine, position = next(batches)
                update, rate = progress.update + 1, learning_rate(config, progress.update + 1, seconds=progress.seconds)
                recent.append(accumulate_gradients(self.objective, mine, workers, seed=config.seed, update=update))
                if not clip_and_step(self.optimizer, list(self.model.parameters()), config, rate):
                    raise failure(self.objective, mine, workers, update=update, advice=self.advice())
                progress.update, progress.position = update, position
                progress.seconds = spent_before + time.monotonic() - started
                if update % config.log_every == 0:
                    self.report(recent, rate)
                    recent = []
                if update % self.config.validation.every == 0:
                    self.validate()
                if update % config.save_every == 0:
                    self.save()
        self.end()

    def is_over(self) -> bool:
        """Whether to stop before the next update; every worker gives the same answer."""
        config, progress = self.config.training, self.progress
        has_lost_patience = config.patience is not None and progress.validations_since_best >= config.patience
        is_spent = budget_used(config, progress.update, seconds=progress.seconds) >= 1
        wishes = torch.tensor([float(has_lost_patience or is_spent), float(self.stop.is_asked)], device=self.workers.device)
        ended, asked = (bool(votes) for votes in self.workers.sum(wishes).tolist())
        self.stop.is_asked = asked
        return ended or asked

    def report(self, recent: list[UpdateSums], rate: float) -> None:
        """Tells the mean loss of the recent updates at each exit, the speed and the time left."""
        total = sum(recent[1:], start=recent[0])
        progress, used = self.progress, budget_used(self.config.training, self.progress.update, seconds=self.progress.seconds)
        losses = (total.likelihoods / total.rows.clamp(min=1)).tolist()
        seconds_before, self.reported_seconds = self.reported_seconds, progress.seconds
        speed = total.tokens.item() / max(progress.seconds - seconds_before, 1e-9)
        left = progress.seconds * (1 - used) / used if used else 0.0
        text = (
            f"update {progress.update:,}  epoch {progress.position.epoch + 1}  nll {describe_exits(losses)}  "
            f"rate {rate:.2e}  {speed:,.0f} tokens/s  {describe_time(left)} left"
        )
        self.reporter.progress(used, text)
        figures = {"update": progress.update, "epoch": progress.position.epoch, "loss": (total.loss / total.tokens).item(), "nll": losses}
        self.reporter.measured("train", figures | {"rate": rate, "tokens_per_second": round(speed), "seconds": round(progress.seconds, 1)})

    def validate(self) -> None:
        """Measures the validation set and keeps the weights if they are the best so far."""
        progress, config = self.progress, self.config.validation
        if self.workers.is_main:
            self.model.eval()
            losses = validation_losses(self.model, self.data.pairs("valid"), batch_tokens=config.batch_tokens)
            bleu = self.score_exits(self.model) if config.sentences else []
            self.model.train()
            text = f"update {progress.update:,}  valid nll {describe_exits(losses)}"
            self.reporter.say(text + (f"  BLEU {describe_exits(bleu, digits=1)}" if bleu else ""))
            self.reporter.measured("valid", {"update": progress.update, "nll": losses, "bleu": bleu, "seconds": round(progress.seconds, 1)})
            value = -max(bleu) if config.metric == "bleu" else sum(losses) / len(losses)
            progress.validations_since_best += 1
            if progress.best is None or value < progress.best:
                progress.best, progress.best_update, progress.validations_since_best = value, progress.update, 0
                save_tensors(self.run.best_file, model_tensors(self.model))
        self.workers.wait()

    def save(self) -> None:
        """Leaves a state to go on from, and the weights of the last checkpoints for averaging."""
        if not self.workers.is_main or self.progress.update == 0:
            return
        save_tensors(self.run.checkpoint_file(self.progress.update), model_tensors(self.model))
        self.leave_state()
        for _, file in self.run.checkpoints()[: -self.config.training.average]:
            file.unlink()

    def leave_state(self) -> None:
        """Leaves a state to go on from, and no checkpoint: an interrupted run must average what one without a pause does."""
        if self.workers.is_main and self.progress.update > 0:
            save_state(self.run.state_file, self.model, self.optimizer, self.progress)

    def end(self) -> None:
        """Saves, and either says how to go on or chooses the final weights."""
        progress = self.progress
        if self.stop.is_asked:
            self.leave_state()
            raise Interrupted(f"stopped after update {progress.update:,}; go on with `anydepth train --resume --to {self.run.folder}`")
        self.save()
        if not self.workers.is_main:
            return
        choice = self.config.training.final
        if choice == "average":
            files = [file for update, file in self.run.checkpoints() if update <= progress.update]
            tensors, origin = average_tensors(files), f"the average of the last {len(files)} checkpoints"
        elif choice == "best" and self.run.best_file.exists():
            tensors, origin = load_tensors(self.run.best_file)[0], f"the best validation (update {progress.best_update:,})"
        else:
            tensors, origin = model_tensors(self.model), "the last update"
        save_tensors(self.run.weights_file, tensors)
        spent = describe_time(progress.seconds)
        self.reporter.say(f"trained {progress.update:,} updates in {spent}; {self.run.weights_file} has the weights of {origin}")

    def advice(self) -> str:
        """What to do when a loss is not a number."""
        saved = f"{self.run.state_file} still holds the last good state" if self.run.state_file.exists() else "nothing was saved yet"
        return f"{saved}; lower training.learning_rate (now {self.config.training.learning_rate}) or look at those pairs"
