"""The errors that a user can cause: each message states the rule, the offending value and the
cure."""


class AnydepthError(Exception):
    """Something failed that the user should hear of in one sentence; the command exits with
    `exit_code`."""

    exit_code = 1


class UsageError(AnydepthError):
    """The request itself cannot be met: a wrong option, value or file."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration that breaks a rule."""


class CorpusError(UsageError):
    """Text or prepared data that cannot be used."""


class RunError(UsageError):
    """A run directory, or a file in it, that cannot be used."""


class AdoptionError(UsageError):
    """A folder of another program's model that cannot be adopted."""


class TrainingError(AnydepthError):
    """Training that cannot go on."""


class WorkerLost(AnydepthError):  # noqa: N818
    """Training that ends because another of its processes has ended."""


class OtherWorkerReports(AnydepthError):  # noqa: N818
    """This process ends without a message, because another worker of the same training reports
    why."""

    def __init__(self, exit_code: int = AnydepthError.exit_code) -> None:
        super().__init__("another worker of this training reports why it ended")
        self.exit_code = exit_code


class Interrupted(AnydepthError):  # noqa: N818
    """The user stopped the command."""

    exit_code = 130
