"""Times read as on a clock."""

import pytest

from anydepth.messages.times import describe_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0:00"), (30.0, "0:30"), (245.4, "4:05"), (59.6, "1:00"), (3599.7, "1:00:00"), (3723.0, "1:02:03")],
)
def test_times_read_as_on_a_clock(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text
