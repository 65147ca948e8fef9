"""The SGLang scheduler of one rank, one pass at a time (spec 01 section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .content import Identities
from .radix import Node, RadixTree
from .request import Request
from .scheduler import acceptance_of
from .timing import Timing

RETRACTION_STEPS = 20
SHARED_PREFIX_TOKENS = 32
LONGEST_SORTED_QUEUE = 128


@dataclass
class Held:
    """What a request occupies: `pages` of which the first `cached` are in the tree, down to `node`."""

    node: Node
    pages: int
    cached: int


@dataclass
class Pass:
    """A pass under construction, then its outcome."""

    selected: list[Request] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)  # tokens before and after, per selected one
    decoding: list[Request] = field(default_factory=list)
    set_aside: int = 0  # pages for what the decoding ones emit at most
    retracted: bool = False
    rejected: list[tuple[Request, str]] = field(default_factory=list)
    duration_ns: int = 0

    @property
    def prefills(self) -> bool:
        """Whether it computes at least one token of a prompt."""
        return any(before < after for before, after in self.spans)

    @property
    def ran_model(self) -> bool:
        """Whether there was anything to compute."""
        return bool(self.selected or self.decoding)


class SglangScheduler:
    """Waiting queue, running list and radix tree of one rank. `plan` starts a pass, `settle` ends it."""

    def __init__(
        self, rank: dict[str, Any], identities: Identities, dp_size: int = 1, number: int = 0
    ) -> None:
        settings = rank.get("sglang", {})
        self.page: int = rank["block_size"]
        self.num_gpu_blocks: int = rank["num_gpu_blocks"]
        self.max_num_seqs: int = rank.get("max_num_seqs", 256)
        self.max_model_len: int | None = rank.get("max_model_len")
        self.caching: bool = rank.get("enable_prefix_caching", True)
        self.interval: int = rank.get("prefill_decode_interval", 0)
        self.longest_first: bool = settings.get("schedule_policy", "fifo") == "lpm"
        self.max_prefill_tokens: int = settings.get("max_prefill_tokens", 16384)
        self.chunk_tokens: int = settings.get("chunked_prefill_size", 8192) // dp_size
        self.clip: int = settings.get("clip_max_new_tokens", 4096)
        conservativeness = settings.get("schedule_conservativeness", 1.0) * (0.3 if dp_size > 1 else 1.0)
        self.first_ratio = 0.7 * conservativeness
        self.least_ratio = self.first_ratio * 0.14
        self.decay = (self.first_ratio - self.least_ratio) / 600.0
        self.ratio = self.first_ratio
        self.acceptance = acceptance_of(rank, number)
        self.identities = identities
        self.timing = Timing(rank, self.num_gpu_blocks * self.page)
        self.tree = RadixTree(self.num_gpu_blocks)
        self.held: dict[Request, Held] = {}
        self.running: list[Request] = []
        self.waiting: list[Request] = []

    leaving = 0  # requests that need a slot although they generate nothing

    @property
    def may_select(self) -> bool:
        """Whether prompts may be computed at all."""
        return True

    @property
    def others_hold(self) -> bool:
        """Whether requests that do not run hold pages, which they will give back."""
        return False

    @property
    def ready(self) -> bool:
        """Whether a pass would have anything to look at."""
        return bool(self.running or self.waiting)

    def plan(self, now_ns: int, may_prefill: bool = True) -> Pass:
        """Choose the work of a pass that starts now and price it."""
        work = Pass()
        self._turn_away(work)
        self._sort_waiting()
        if may_prefill and self.may_select:
            while not self._admit(work, now_ns) and not self.running and self.waiting:
                if self.others_hold:
                    self.ratio = 0.0  # estimated from nobody
                    break
                work.rejected.append((self.waiting[0], self._blocked_by))
                self._release(self.waiting.pop(0))
        if work.selected:
            work.duration_ns = self.timing.prefill_ns(work.spans)
            return work
        if self.running:
            self._plan_decode(work)
        if not work.retracted and (may_prefill or work.decoding):
            self.ratio = max(self.least_ratio, self.ratio - self.decay)
        return work

    def settle(self, work: Pass, end_ns: int) -> list[Request]:
        """Make the outcome of a pass visible at its end; returns the requests that became terminal."""
        for request, reason in work.rejected:
            request.end(end_ns, "rejected", reason)
        ended = [request for request, _ in work.rejected]
        if work.selected:
            return ended + self._settle_prefill(work.selected, end_ns)
        done = []
        for request in work.decoding:
            before = self.held[request].pages
            for _ in range(self._burst(request)):
                self._emit(request, end_ns)
            work.set_aside -= self.held[request].pages - before
            if self._remaining(request) == 0:
                done.append(request)
            else:
                self._cache_completed(request)
        self.tree.free += work.set_aside
        for request in done:
            self._complete(request, end_ns)
        return ended + done

    def _burst(self, request: Request) -> int:
        """How many tokens a decode pass yields."""
        if self.acceptance is None:
            return 1
        if request.bursts is None:
            request.bursts = self.acceptance.stream(request.number)
        return min(next(request.bursts), self._remaining(request))

    # Queue ------------------------------------------------------------------------------------------

    def _turn_away(self, work: Pass) -> None:
        """Reject what can never be served."""
        for request in self.waiting[:]:
            if self.max_model_len is not None and request.isl >= self.max_model_len:
                reason = "prompt_exceeds_max_model_len"
            elif self._pages(request.isl) > self.num_gpu_blocks:
                reason = "prompt_exceeds_kv_capacity"
            else:
                continue
            work.rejected.append((request, reason))
            self.waiting.remove(request)

    def _sort_waiting(self) -> None:
        if not self.longest_first or not self.caching or len(self.waiting) > LONGEST_SORTED_QUEUE:
            return
        order: dict[Request, tuple[bool, int]] = {}
        seen: set[int] = set()
        for request in self.waiting:
            keys = self._keys(request, request.length)
            matched = self.tree.matched(keys) * self.page
            late = False
            if matched <= SHARED_PREFIX_TOKENS:
                stem = self._keys(request, request.isl)[: self._pages(SHARED_PREFIX_TOKENS)]
                if len(stem) == self._pages(SHARED_PREFIX_TOKENS):
                    late = stem[-1] in seen
                    seen.add(stem[-1])
            order[request] = (late, -matched)
        self.waiting.sort(key=order.__getitem__)

    def _most_cached(self, request: Request) -> int:
        return request.length - (len(request.output) > 0)

    def _keys(self, request: Request, tokens: int) -> list[int]:
        return self.identities.of(request.tokens[:tokens], self.page)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def _remaining(self, request: Request) -> int:
        limit = len(request.output)
        if self.max_model_len is not None:
            limit = min(limit, max(0, self.max_model_len - request.isl))
        return limit - request.emitted

    # Prefill ----------------------------------------------------------------------------------------

    def _admit(self, work: Pass, now_ns: int) -> bool:
        """Select requests for a prefill pass; False when there are none."""
        reserved = sum(min(self._remaining(request), self.clip) * self.ratio for request in self.running)
        self._total = float(self.tree.available * self.page) - reserved
        self._input, self._chunk = self.max_prefill_tokens, self.chunk_tokens
        while self.waiting and len(work.selected) < self.max_num_seqs - len(self.running) - self.leaving:
            if not self._admit_head(work, self.waiting[0], now_ns):
                break
            self.waiting.pop(0)
            if self._chunk <= 0:
                break
        return bool(work.selected)

    def _admit_head(self, work: Pass, request: Request, now_ns: int) -> bool:
        start = request.computed
        if start == 0 and self.caching:
            start = self.tree.matched(self._keys(request, self._most_cached(request))) * self.page
        extent = request.length - start
        # A prompt is only taken whole if its last page fits as well.
        chunk = min(extent, self._chunk // self.page * self.page)
        cost = self._pages(chunk) * self.page
        output = min(self._remaining(request), self.clip) if chunk == extent else 0
        self._blocked_by = "prompt_exceeds_token_budget"
        if (chunk == 0 and extent) or cost > self._input or cost > self._chunk:
            return False
        self._blocked_by = "sequence_exceeds_kv_capacity"
        if cost + output >= self._total or not self._allocate(request, start, start + chunk):
            return False
        if request.computed == 0:
            request.admissions.append((now_ns, start))
        request.computed = start + chunk
        work.selected.append(request)
        work.spans.append((start, start + chunk))
        self._total -= cost + output
        self._input -= cost
        self._chunk -= cost
        return True

    def _allocate(self, request: Request, start: int, end: int) -> bool:
        held = self.held.get(request)
        if held is None:
            matched, node = 0, self.tree.root
            if self.caching:
                matched, node = self.tree.match(self._keys(request, start))
            held = Held(node, matched, matched)
        self.tree.lock(held.node)
        pages = self._pages(end) - held.pages
        fits = pages <= self.tree.available
        if request in self.held or not fits:
            self.tree.lock(held.node, -1)
        if fits:
            self.tree.take(pages)
            held.pages += pages
            self.held[request] = held
        return fits

    def _settle_prefill(self, selected: list[Request], end_ns: int) -> list[Request]:
        joining, ending = [], []
        for request in selected:
            if request.computed < request.length:
                self._cache_completed(request)
                self.waiting.insert(0, request)
            elif self._remaining(request) > 1:
                joining.append(request)
            else:
                ending.append(request)
        if self.tree.take(sum(map(self._growth, joining))):
            for request in joining:
                self._emit(request, end_ns)
                self._cache_completed(request)
        self.running += joining
        # Those without output first; nobody's last token needs a page.
        ending.sort(key=self._remaining)
        for request in ending:
            if self._remaining(request):
                request.emit(end_ns)
            self._complete(request, end_ns)
        return ending

    # Decode -----------------------------------------------------------------------------------------

    def _plan_decode(self, work: Pass) -> None:
        most = 1 if self.acceptance is None else self.acceptance.most_tokens
        while self.tree.available < (growth := sum(self._growth(request, most) for request in self.running)):
            if len(self.running) == 1 and self.others_hold:
                break
            if len(self.running) == 1:
                stuck = self.running.pop()
                work.rejected.append((stuck, "sequence_exceeds_kv_capacity"))
                self._release(stuck)
                return
            victim = min(self.running, key=lambda request: request.emitted)
            self.running.remove(victim)
            self._release(victim)
            self.waiting.append(victim)
            work.retracted = True
        if growth <= self.tree.available:
            self.tree.take(growth)
            work.set_aside = growth
            work.decoding = self.running[:]
            work.duration_ns = self.timing.decode_ns([request.length for request in self.running])
        if work.retracted:
            emitted = sum(request.emitted for request in self.running)
            limits = sum(self._remaining(request) + request.emitted for request in self.running)
            expected = emitted + float(RETRACTION_STEPS) * len(self.running)
            self.ratio = min(1.0, expected / (limits + 1.0))
        if growth > self.tree.available and not work.decoding:
            self.ratio = 0.0  # estimated from nobody

    def _growth(self, request: Request, tokens: int = 1) -> int:
        """Pages that the next `tokens` tokens open, if there are so many to come."""
        tokens = min(tokens, self._remaining(request))
        return self._pages(request.length + tokens) - self.held[request].pages

    # Pages ------------------------------------------------------------------------------------------

    def _emit(self, request: Request, end_ns: int) -> None:
        """Emit a token whose page was allocated before."""
        request.emit(end_ns)
        request.computed += 1
        self.held[request].pages = self._pages(request.computed)

    def _cache_completed(self, request: Request) -> None:
        held = self.held[request]
        complete = request.computed // self.page
        if not self.caching or complete <= held.cached:
            return
        node = self.tree.insert(held.node, self._keys(request, request.computed)[held.cached :])
        self.tree.lock(node)
        self.tree.lock(held.node, -1)
        held.node, held.cached = node, complete

    def _complete(self, request: Request, end_ns: int) -> None:
        held = self.held[request]
        if self.caching:
            keys = self._keys(request, request.computed)
            self.tree.insert(held.node, keys[held.cached :])
            held.cached = len(keys)
        if request in self.running:
            self.running.remove(request)
        self._release(request)
        request.end(end_ns, "completed")

    def _release(self, request: Request) -> None:
        """Give back what a request holds; what is in the tree stays there, unlocked."""
        held = self.held.pop(request, None)
        request.computed = 0
        if held is not None:
            self.tree.free += held.pages - held.cached
            self.tree.lock(held.node, -1)
