"""The log of a server: one JSON object a line, on stderr."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

FIELDS = "fields"  # what a record brings beside its message
JSON = json.JSONEncoder(ensure_ascii=False)


class JsonLines(logging.Formatter):
    """A record as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The record in one line; a traceback is one of its texts."""
        values: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        return JSON.encode(values)


def log_to_stderr() -> None:
    """Sends the log of this process, and of the libraries in it, to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
