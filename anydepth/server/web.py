"""The app: routes, errors, the page and what every request passes.

Starlette answers, and FastAPI writes the OpenAPI document of the same routes: all of them read the
request themselves, so FastAPI's own way to a function would find out nothing more about it."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anydepth import __version__
from anydepth.errors import UsageError
from anydepth.server.deepl import PREFIX, deepl_routes
from anydepth.server.gate import Gate
from anydepth.server.libretranslate import libretranslate_routes
from anydepth.server.refusals import Refusal
from anydepth.server.service import TranslationService

LOG = logging.getLogger(__name__)
Endpoint = Callable[[Request], Awaitable[Response]]
ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]
PAGE = Path(__file__).parent / "page"
PAGE_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
HALF_READ = (408, 413)  # refused before all of the request has come, so the connection cannot go on
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def make_web(service: TranslationService, *, origins: Sequence[str] = ()) -> Starlette:
    """The app that answers requests; `origins` are the sites whose pages may ask, too."""
    routers = [libretranslate_routes(service), deepl_routes(service)]
    described = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    routes = [Route(route.path, route.endpoint, methods=route.methods) for route in described]
    routes += [document_route(routers), *page_routes(PAGE)]
    paths = frozenset(route.path for route in routes)
    layers = [Middleware(Gate, limits=service.limits, counters=service.counters, paths=paths)]
    if origins:
        layers.append(Middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"]))
    direct = {(method, route.path): route.endpoint for route in described for method in route.methods or ()}
    handlers = {Refusal: refused, UsageError: unusable, HTTPException: unrouted}
    layers.append(Middleware(DirectRoutes, endpoints=direct, handlers=handlers))
    return Starlette(routes=routes, middleware=layers, exception_handlers={**handlers, Exception: failed})


class DirectRoutes:
    """Answers a request whose method and path are exactly those of a route without a walk through
    all routes and Starlette's layers around each; every other request goes on to Starlette."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        endpoints: Mapping[tuple[str, str], Endpoint],
        handlers: Mapping[type[Exception], ErrorHandler],
    ) -> None:
        self.app, self.endpoints, self.handlers = app, endpoints, handlers
        self.handled = tuple(handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or hands on; an error without a handler is that of the layer around all."""
        endpoint = self.endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request)
        except self.handled as error:
            handler = next(self.handlers[kind] for kind in self.handled if isinstance(error, kind))
            response = await handler(request, error)
        await response(scope, receive, send)


def document_route(routers: Sequence[APIRouter]) -> Route:
    """The OpenAPI document of some routes, at /spec."""
    app = FastAPI(
        title="anydepth",
        version=__version__,
        description="Translation with a budget of depth for each request.",
    )
    for router in routers:
        app.include_router(router)

    async def spec(request: Request) -> Response:
        return JSONResponse(app.openapi())

    return Route("/spec", spec)


def page_routes(folder: Path) -> list[Route]:
    """The page at / and its files, each by its name: no path leads elsewhere."""

    def page_route(file: Path) -> Route:
        async def shown(request: Request) -> Response:
            headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
            return FileResponse(file, media_type=PAGE_KINDS[file.suffix], headers=headers)

        return Route("/" if file.name == "index.html" else f"/{file.name}", shown)

    return [page_route(file) for file in sorted(folder.glob("*")) if file.suffix in PAGE_KINDS]


def error_answer(request: Request, status: int, sentence: str, *, retry_after: int | None = None) -> Response:
    """A sentence as LibreTranslate's clients read it, or as DeepL's do on its routes."""
    name = "message" if request.url.path.startswith(f"{PREFIX}/") else "error"
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if status in HALF_READ:
        headers["Connection"] = "close"
    return JSONResponse({name: sentence}, status_code=status, headers=headers)


async def refused(request: Request, error: Exception) -> Response:
    """The answer to a request that is refused."""
    assert isinstance(error, Refusal)
    return error_answer(request, error.status, str(error), retry_after=error.retry_after)


async def unusable(request: Request, error: Exception) -> Response:
    """The answer to a wish, a policy or a vocabulary that cannot be met: the sentence of the
    command line."""
    return error_answer(request, 400, str(error))


async def unrouted(request: Request, error: Exception) -> Response:
    """The answer where there is no such route, or not with this method."""
    assert isinstance(error, HTTPException)
    response = error_answer(request, error.status_code, str(error.detail))
    response.headers.update(error.headers or {})
    return response


async def failed(request: Request, error: Exception) -> Response:
    """The answer where something went wrong that is nobody's business outside; the log has it."""
    return error_answer(request, 500, "something went wrong in the server; its log says what")
