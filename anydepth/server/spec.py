"""What the OpenAPI document says of a route, where its function cannot: a body that may be JSON or a
form, and the errors."""

from typing import Any

from pydantic import BaseModel

from anydepth.server.questions import FORM, JSON, MULTIPART

ERRORS = {
    400: "The request cannot be met as it is.",
    403: "The key is missing or unknown.",
    408: "The request came too slowly.",
    413: "The request is too large.",
    429: "The client asks too often, or for too much at a time.",
    500: "Something went wrong in the server.",
    503: "The server has more to do than it can, or is about to stop.",
}


def takes(question: type[BaseModel]) -> dict[str, Any]:
    """What a route takes: a question as JSON or as a form, or as a query."""
    schema = question.model_json_schema()
    kinds = {kind: {"schema": schema} for kind in (JSON, FORM, MULTIPART)}
    return {"openapi_extra": {"requestBody": {"content": kinds, "required": True}}}


def answers(answer: Any, error: type[BaseModel]) -> dict[str, Any]:
    """What a route answers: its data, or an error."""
    failures: dict[int | str, dict[str, Any]] = {
        status: {"model": error, "description": text} for status, text in ERRORS.items()
    }
    if answer is None:
        return {"responses": failures}
    return {"responses": {200: {"model": answer}, **failures}}
