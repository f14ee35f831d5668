"""What the routes share: who asks, whether they may, and their texts translated."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request

from anydepth.server.budgets import Budget, SearchPlan
from anydepth.server.counters import ServerCounters
from anydepth.server.gate import announced_bytes, check_bytes
from anydepth.server.key_file import KeyRing
from anydepth.server.pairs import ServedPair, ServedPairs
from anydepth.server.rates import MOST_CLIENTS, RequestRates, client_of
from anydepth.server.refusals import Refusal
from anydepth.server.serving_limits import ServingLimits
from anydepth.server.translating import TextFormat, TranslatedText, TranslationJob, translate_job, unless_left

SCHEMES = ("bearer", "deepl-auth-key")
Done = TypeVar("Done")


@dataclass(frozen=True)
class TranslationOrder:
    """The texts of a request, whose they are, and how they are to be translated."""

    texts: Sequence[str]
    owner: str
    format: TextFormat = "text"
    budget: Budget = field(default_factory=Budget)
    alternatives: int = 0
    wants_depth: bool = False


@dataclass
class TranslationService:
    """The pairs of a server and the rules by which clients may use them."""

    pairs: ServedPairs
    limits: ServingLimits
    counters: ServerCounters
    keys: KeyRing | None = None
    logs_text: bool = False
    rates: RequestRates = field(init=False)
    characters: OrderedDict[str, int] = field(default_factory=OrderedDict)  # translated for each owner so far

    def __post_init__(self) -> None:
        self.rates = RequestRates(self.limits.requests_per_minute)

    def admit_head(self, request: Request) -> str | None:
        """The owner of a request, as far as its head tells: None where keys are wanted, because the
        body may have one. What the head tells to be too large or too much is refused before the body
        is read."""
        check_bytes(announced_bytes(request.scope), self.limits)
        return self.admit(request) if self.keys is None else None

    def admit(self, request: Request, key: str | None = None) -> str:
        """The owner of a request that may be met: the name of its key, or its address; `key` goes
        before the key of the header."""
        address = client_of(request.client.host if request.client is not None else "")
        owner, own_rate = address, None
        if self.keys is not None:
            given = key or header_key(request)
            found = self.keys.find(given) if given else None
            if found is None:
                self.rates.take(address)
                sentence = "Invalid API key" if given else "Please contact the server operator to get an API key"
                raise Refusal(403, sentence)
            owner, own_rate = f"key {found.name}", found.requests_per_minute
        self.rates.take(owner, per_minute=own_rate)
        note(request, client=owner)
        return owner

    async def plan(self, pair: ServedPair, budget: Budget, alternatives: int) -> SearchPlan:
        """How a request with this budget is searched; one that nobody asked for yet is found in a
        thread, because that takes a look at files."""
        known = pair.budgets.known_plan(budget, alternatives)
        if known is not None:
            return known
        return await asyncio.to_thread(pair.budgets.plan, budget, alternatives)

    async def translate(
        self, request: Request, order: TranslationOrder, sources: Sequence[str], target: str
    ) -> list[TranslatedText]:
        """The texts of an order, each from its source language, in their order; counted and
        logged."""
        pairs = [self.pairs.pair(source, target) for source in sources]
        done: dict[int, TranslatedText] = {}
        for pair in dict.fromkeys(pairs):
            numbers = [number for number, own in enumerate(pairs) if own is pair]
            texts = [order.texts[number] for number in numbers]
            plan = await self.plan(pair, order.budget, order.alternatives)
            job = TranslationJob(pair, texts, order.format, plan, order.owner, self.limits.waiting, order.wants_depth)
            done.update(zip(numbers, await translate_job(job), strict=True))
            sentences = [sentence for number in numbers for sentence in done[number].sentences]
            self.counters.count_translations(pair.name, sentences, blocks=pair.translator.model.blocks)
            note(request, pair=pair.name, policy=plan.policy.name, sentences=len(sentences))
        translated = [done[number] for number in range(len(pairs))]
        characters = sum(map(len, order.texts))
        self.count_characters(order.owner, characters)
        note(request, characters=characters, format=order.format, exits=order.wants_depth)
        if self.logs_text:
            note(request, texts=list(order.texts), translations=[text.text for text in translated])
        return translated

    async def while_connected(self, request: Request, work: Awaitable[Done]) -> Done:
        """What `work` gives; it is given up when the client leaves, or when it takes too long."""

        async def has_left() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        done = await unless_left(work, has_left, seconds=self.limits.seconds)
        if done is None:
            raise Refusal(499, "the client has left")
        return done

    def count_characters(self, owner: str, characters: int) -> None:
        """Remembers how much an owner had translated; who has not asked for longest is forgotten."""
        self.characters[owner] = self.characters.pop(owner, 0) + characters
        if len(self.characters) > MOST_CLIENTS:
            self.characters.popitem(last=False)


def header_key(request: Request) -> str | None:
    """The key in a header, as in "Authorization: DeepL-Auth-Key KEY"."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() in SCHEMES else None


def note(request: Request, **fields: object) -> None:
    """Adds to the line that the log will have for a request."""
    request.scope["state"]["log"].update(fields)
