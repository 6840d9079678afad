"""The service's parser gives what the agent's gives, value for value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from advisor.store.segment_bodies import parse_json

NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.sampled_from(
        ["-0", "1e999", "-1E+400", "01", "1.", "1e5", "9007199254740993.0", "1" * 5000]
    ),
)
TEXTS = st.text(st.characters(), max_size=8).map(json.dumps)
LEAVES = st.one_of(NUMBERS.map(str), TEXTS, st.sampled_from(["null", "true", "NaN", "-Infinity"]))
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(TEXTS, inner), max_size=4).map(
            lambda parts: "{" + ",".join(f"{name}:{value}" for name, value in parts) + "}"
        ),
    ),
    max_leaves=12,
)


def same(ours: Any, theirs: Any) -> bool:
    """Return whether both are the same, by type as well; each NaN is the same."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return (math.isnan(ours) and math.isnan(theirs)) or repr(ours) == repr(theirs)
    return bool(ours == theirs)


def outcome(parse: Callable[[str], Any], text: str) -> tuple[Any, str]:
    """Return what it gives, or says."""
    try:
        return parse(text), ""
    except ValueError as error:
        return None, str(error)


@given(st.one_of(DOCUMENTS, DOCUMENTS.map(lambda text: text[:-1]), st.text(max_size=20)))
def test_each_text_gives_the_same_value_or_the_same_error(text):
    (ours, problem), (theirs, their_problem) = outcome(parse_json, text), outcome(json.loads, text)
    assert problem == their_problem
    assert same(ours, theirs)
