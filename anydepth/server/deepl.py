"""DeepL's routes, as far as its official clients need them to translate."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anydepth.server.answers import DeepLAnswer, DeepLErrorAnswer, DeepLLanguage, DeepLUsage
from anydepth.server.languages import language_name
from anydepth.server.questions import DeepLQuestion, check_size, checked_question, read_values
from anydepth.server.refusals import missing
from anydepth.server.service import TranslationOrder, TranslationService
from anydepth.server.spec import answers, takes

PREFIX = "/v2"
TAGGED = ("html", "xml")  # kinds of markup whose tags stay
NO_LIMIT = 10**12  # characters: what DeepL's clients are told where there is no limit


def deepl_routes(service: TranslationService) -> APIRouter:
    """The routes that DeepL's clients use; the key comes in the header `Authorization:
    DeepL-Auth-Key KEY`."""
    router = APIRouter(prefix=PREFIX)

    codes = {"source_lang": service.pairs.sources, "target_lang": service.pairs.targets_of_any}
    served = {name: [code.upper() for code in own] for name, own in codes.items()}

    @router.post("/translate", **takes(DeepLQuestion, served), **answers(DeepLAnswer, DeepLErrorAnswer))
    async def translate(request: Request) -> Response:
        """Translate texts, as DeepL's clients ask for it."""
        owner = service.admit(request)
        values = await read_values(request, lists=frozenset({"text"}))
        question = checked_question(DeepLQuestion, values)
        return JSONResponse(await service.while_connected(request, translated_texts(service, request, question, owner)))

    @router.get("/languages", **answers(list[DeepLLanguage], DeepLErrorAnswer))
    @router.post("/languages", **answers(list[DeepLLanguage], DeepLErrorAnswer))
    async def languages(request: Request) -> Response:
        """List source languages, or target languages with `type=target`."""
        service.admit(request)
        values = await read_values(request)
        found = service.pairs.targets_of_any if values.get("type") == "target" else service.pairs.sources
        return JSONResponse(
            [{"language": code.upper(), "name": language_name(code), "supports_formality": False} for code in found]
        )

    @router.get("/usage", **answers(DeepLUsage, DeepLErrorAnswer))
    @router.post("/usage", **answers(DeepLUsage, DeepLErrorAnswer))
    async def usage(request: Request) -> Response:
        """Tell how many characters the client had translated since the server started."""
        owner = service.admit(request)
        count = service.characters.get(owner, 0)
        return JSONResponse({"character_count": count, "character_limit": NO_LIMIT})

    return router


async def translated_texts(
    service: TranslationService, request: Request, question: DeepLQuestion, owner: str
) -> dict[str, object]:
    """The answer to a question as DeepL gives it, at full depth."""
    if not question.text:
        raise missing("text")
    if not question.target_lang:
        raise missing("target_lang")
    check_size(question.text, service.limits)
    target = language_code(question.target_lang)
    given = None if not question.source_lang else language_code(question.source_lang)
    sources = [given or service.pairs.detect_source(text, target).language for text in question.text]
    order = TranslationOrder(question.text, owner, "html" if question.tag_handling in TAGGED else "text")
    texts = await service.translate(request, order, sources, target)
    return {
        "translations": [
            {"detected_source_language": source.upper(), "text": text.text, "billed_characters": len(own)}
            for source, text, own in zip(sources, texts, question.text, strict=True)
        ]
    }


def language_code(code: str) -> str:
    """A language of DeepL as runs name it: "EN-GB" is "en"."""
    return code.partition("-")[0].lower()
