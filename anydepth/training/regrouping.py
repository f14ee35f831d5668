"""What becomes of updates where training goes on with another number of workers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Grouping:
    """How an update gathers its batches: so many workers, each with so many batches."""

    workers: int
    accumulation: int

    @property
    def batches(self) -> int:
        """The batches of one update."""
        return self.workers * self.accumulation


def regrouped(before: Grouping, now: Grouping, *, batch_tokens: int) -> str:
    """One sentence on what changes from `before` to `now`; nothing where nothing does.

    The stream of batches does not know of workers, so the order stays; how many of them make one
    update may not.
    """
    changes = []
    if before.workers != now.workers:
        changes.append(f"{_counted(now.workers, 'worker')} instead of {before.workers:,}")
    if before.accumulation != now.accumulation:
        changes.append(f"training.accumulation = {now.accumulation} instead of {before.accumulation}")
    if not changes:
        return ""
    start = f"resumed with {' and '.join(changes)}: the batches come in the same order"
    if before.batches == now.batches:
        same = _counted(now.batches, "batch", "batches")
        return f"{start}, and an update has the same {same} as before, up to rounding"
    tokens = f"at most {now.batches * batch_tokens:,} instead of {before.batches * batch_tokens:,} tokens"
    return (
        f"{start}, but an update has {_counted(now.batches, 'batch', 'batches')} instead of {before.batches:,} "
        f"({tokens}); {_cure(before, now)}"
    )


def _cure(before: Grouping, now: Grouping) -> str:
    with_workers = f"with {_counted(now.workers, 'worker')}"
    if before.batches % now.workers:
        return f"no training.accumulation gives updates as before {with_workers}"
    accumulation = before.batches // now.workers
    return f"for updates as before {with_workers}, resume with --set training.accumulation={accumulation}"


def _counted(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
