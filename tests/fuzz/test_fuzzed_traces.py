"""Five hundred broken traces: `load_trace` reads them or says in one line which file, and where."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.workload.formats import TRACE_FORMATS, load_trace
from tests.cli.test_trace import EXAMPLES

TOKENS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["-1", "1e999", "NaN", "null", "{}", "[]", '"', ",", "\n", "\x00", "99999999999999999999", "true"]
    ),
)


def torn(text, data):
    """Cut, doubled or noisy text: up to four wounds."""
    for _ in range(data.draw(st.integers(1, 4), "wounds")):
        start = data.draw(st.integers(0, len(text)), "from")
        stop = min(len(text), start + data.draw(st.integers(0, 12), "long"))
        text = text[:start] + data.draw(TOKENS, "put") + text[stop:]
    return text


def revalued(text, data):
    """The same rows, with a value of one of them swapped."""
    rows = [json.loads(line) for line in text.splitlines() if line.strip().startswith("{")]
    if not rows:
        return torn(text, data)
    row = data.draw(st.sampled_from(rows), "row")
    name = data.draw(st.sampled_from(sorted(row)), "field")
    odd = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just([]), st.just({})
    )
    row[name] = data.draw(odd, "value")
    return "".join(json.dumps(item) + "\n" for item in rows)


def test_every_format_is_fuzzed():
    assert set(EXAMPLES) == set(TRACE_FORMATS)


@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(data=st.data(), name=st.sampled_from(sorted(EXAMPLES)))
def test_a_broken_trace_is_read_or_named(tmp_path_factory, data, name):
    path = tmp_path_factory.getbasetemp() / f"fuzzed-{name}"
    wound = data.draw(st.sampled_from([torn, revalued]), "how")
    path.write_text(wound(EXAMPLES[name], data), encoding="utf-8", errors="surrogatepass")
    try:
        load_trace([path], name, None)
    except InputError as error:
        text = str(error)
        assert path.name in text
        assert "\n" not in text
        assert text.isprintable(), repr(text)
