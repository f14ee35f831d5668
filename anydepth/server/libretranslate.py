"""LibreTranslate's routes, with a budget for each request, and our own beside them."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anydepth.server.answers import (
    DetectionAnswer,
    ErrorAnswer,
    HealthAnswer,
    LanguageAnswer,
    TranslateAnswer,
)
from anydepth.server.budgets import DepthOffer
from anydepth.server.counters import CONTENT_TYPE
from anydepth.server.languages import DetectedLanguage
from anydepth.server.questions import (
    DetectQuestion,
    TranslateQuestion,
    check_size,
    check_translate,
    checked_question,
    read_values,
)
from anydepth.server.refusals import missing
from anydepth.server.service import TranslationOrder, TranslationService
from anydepth.server.spec import answers, asks, takes, text_answers

AUTO = "auto"


def libretranslate_routes(service: TranslationService) -> APIRouter:
    """The routes that LibreTranslate's clients use."""
    router = APIRouter()

    served = {"source": [AUTO, *service.pairs.sources], "target": service.pairs.targets_of_any}
    offered = answers(list[DepthOffer], ErrorAnswer)

    @router.post("/translate", **takes(TranslateQuestion, served), **answers(TranslateAnswer, ErrorAnswer))
    async def translate(request: Request) -> Response:
        """Translate a text, or a list of texts."""
        known = service.admit_head(request)
        question = checked_question(TranslateQuestion, await read_values(request))
        owner = known or service.admit(request, question.api_key)
        return JSONResponse(await service.while_connected(request, translated(service, request, question, owner)))

    @router.post("/detect", **takes(DetectQuestion), **answers(list[DetectionAnswer], ErrorAnswer))
    async def detect(request: Request) -> Response:
        """Tell which of the served languages a text is written in."""
        known = service.admit_head(request)
        question = checked_question(DetectQuestion, await read_values(request))
        if known is None:
            service.admit(request, question.api_key)
        if not question.q:
            raise missing("q")
        texts = [question.q] if isinstance(question.q, str) else question.q
        check_size(texts, service.limits)
        return JSONResponse([found.to_json() for found in service.pairs.detect("\n".join(texts))])

    @router.get("/languages", **answers(list[LanguageAnswer], ErrorAnswer))
    async def languages(request: Request) -> Response:
        """List the languages, and those that each can be translated to."""
        return JSONResponse(service.pairs.languages())

    @router.get("/depths", **asks(source="The source language.", target="The target language."), **offered)
    async def depths(request: Request) -> Response:
        """List the budgets worth choosing, cheapest first; full depth is the last."""
        source, target = request.query_params.get("source"), request.query_params.get("target")
        if not source:
            raise missing("source")
        if not target:
            raise missing("target")
        return JSONResponse([offer.to_json() for offer in service.pairs.pair(source, target).budgets.offers()])

    @router.get("/health", **answers(HealthAnswer, ErrorAnswer))
    async def health(request: Request) -> Response:
        """Tell that the server is there."""
        return JSONResponse({"status": "ok"})

    @router.get("/metrics", **text_answers(ErrorAnswer))
    async def metrics(request: Request) -> Response:
        """Give all counts as Prometheus reads them; where keys are wanted, with a key."""
        if service.keys is not None:
            service.admit(request)
        return Response(service.counters.page(service.pairs), media_type=CONTENT_TYPE)

    return router


async def translated(
    service: TranslationService, request: Request, question: TranslateQuestion, owner: str
) -> dict[str, object]:
    """The answer to a question as LibreTranslate gives it: a text for a text, lists for a list."""
    source, target = check_translate(question, service.limits)
    languages = [
        service.pairs.detect_source(text, target) if source == AUTO else DetectedLanguage(source, 100.0)
        for text in question.texts
    ]
    order = TranslationOrder(
        question.texts, owner, question.text_format, question.budget, question.alternatives, question.exits
    )
    texts = await service.translate(request, order, [found.language for found in languages], target)
    answer: dict[str, Sequence[object]] = {"translatedText": [text.text for text in texts]}
    if source == AUTO:
        answer["detectedLanguage"] = [found.to_json() for found in languages]
    if question.alternatives:
        answer["alternatives"] = [text.alternatives for text in texts]
    if question.exits:
        answer["depth"] = [text.depth.model_dump() for text in texts if text.depth is not None]
    return dict(answer) if isinstance(question.q, list) else {name: values[0] for name, values in answer.items()}
