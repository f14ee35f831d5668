"""What the OpenAPI document says of a route, where its function cannot: a body that may be JSON or a
form, and the errors."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import PlainTextResponse
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


def takes(question: type[BaseModel], languages: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """What a route takes: a question as JSON or as a form, or as a query. `languages` are those that
    a parameter may name."""
    schema = question.model_json_schema()
    for name, codes in (languages or {}).items():
        schema["properties"][name] |= {"anyOf": [{"type": "string", "enum": list(codes)}]}
    kinds = {kind: {"schema": schema} for kind in (JSON, FORM, MULTIPART)}
    return {"openapi_extra": {"requestBody": {"content": kinds, "required": True}}}


def asks(**parameters: str) -> dict[str, Any]:
    """What a route takes in its query: texts by their names, each with its description."""
    text = {"in": "query", "required": False, "schema": {"type": "string"}}
    named = [{"name": name, "description": description, **text} for name, description in parameters.items()]
    return {"openapi_extra": {"parameters": named}}


def answers(answer: Any, error: type[BaseModel]) -> dict[str, Any]:
    """What a route answers: its data, or an error."""
    failures: dict[int | str, dict[str, Any]] = {
        status: {"model": error, "description": text} for status, text in ERRORS.items()
    }
    return {"responses": {200: {"model": answer}, **failures}}


def text_answers(error: type[BaseModel]) -> dict[str, Any]:
    """What a route answers whose data is plain text."""
    plain: dict[int | str, Any] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
    return {"response_class": PlainTextResponse, "responses": answers(None, error)["responses"] | plain}
