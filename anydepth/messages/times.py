"""Times in words."""


def describe_seconds(seconds: float) -> str:
    """A time as on a clock: 1:02:03 or 4:05."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
