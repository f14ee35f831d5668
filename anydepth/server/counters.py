"""What a server counts, for Prometheus; every label has few values, whoever asks for whatever."""

from collections.abc import Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from anydepth.inference.translator import Translation
from anydepth.server.pairs import ServedPairs
from anydepth.server.shared_search import TOGETHER

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
SENTENCES = tuple(float(2**power) for power in range(TOGETHER.bit_length() + 4))


class ServerCounters:
    """Requests, searches and depths since the server started. What a label stands for is looked up
    once: the values are few."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second figure for each, which nobody asked for
        self.registry = own = CollectorRegistry()
        self.requests = Counter(named("requests"), "Requests that were answered", ["route", "status"], registry=own)
        self.seconds = Histogram(
            named("request_seconds"), "Seconds to an answer", ["route"], buckets=SECONDS, registry=own
        )
        self.in_flight = Gauge(named("requests_in_flight"), "Requests that wait for their answer", registry=own)
        self.waiting = Gauge(named("waiting_sentences"), "Sentences whose search has not ended", ["pair"], registry=own)
        self.batches = Histogram(
            named("search_sentences"), "Sentences searched together", ["pair"], buckets=SENTENCES, registry=own
        )
        self.source_tokens = Counter(named("source_tokens"), "Source tokens read", ["pair"], registry=own)
        self.target_tokens = Counter(named("target_tokens"), "Target tokens written", ["pair"], registry=own)
        self.exits = Counter(named("exit_tokens"), "Target tokens by their exit", ["pair", "exit"], registry=own)
        self.saved = Counter(named("saved_blocks"), "Blocks that target tokens did without", ["pair"], registry=own)
        self.requests_of, self.seconds_of = cache(self.requests.labels), cache(self.seconds.labels)
        self.batches_of, self.exits_of = cache(self.batches.labels), cache(self.exits.labels)
        self.source_tokens_of = cache(self.source_tokens.labels)
        self.target_tokens_of, self.saved_of = cache(self.target_tokens.labels), cache(self.saved.labels)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer; `route` is a path that there is, or one word for all others."""
        self.requests_of(route, str(status)).inc()
        self.seconds_of(route).observe(seconds)

    def count_search(self, pair: str, sentences: int) -> None:
        """Counts how many sentences are searched together."""
        self.batches_of(pair).observe(sentences)

    def count_translations(self, pair: str, translations: Sequence[Translation], *, blocks: int) -> None:
        """Counts the tokens of translated sentences by their exits."""
        exits = [left for each in translations for left in each.exits]
        self.source_tokens_of(pair).inc(sum(each.source_length for each in translations))
        self.target_tokens_of(pair).inc(len(exits))
        self.saved_of(pair).inc(sum(blocks - left for left in exits))
        for n in set(exits):
            self.exits_of(pair, str(n)).inc(exits.count(n))

    def page(self, pairs: ServedPairs) -> bytes:
        """All figures as Prometheus reads them."""
        for pair in pairs.pairs.values():
            self.waiting.labels(pair.name).set(pair.desk.waiting)
        return generate_latest(self.registry)


def named(figure: str) -> str:
    """The name of a figure among those of other programs."""
    return f"anydepth_{figure}"
