"""The declaration: what a run and its node are."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import (
    Declaration,
    Gpu,
    NodeFacts,
    WireError,
    decode_declaration,
    encode_declaration,
)

from tests.agent.test_wire_segment import json_values, texts

labels = st.dictionaries(texts.filter(bool), texts, max_size=3)
scalars = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | texts
sizes = st.integers(0, 2**62)
gpus = st.builds(Gpu, model=texts.filter(bool), memory_bytes=sizes, uuid=texts)
nodes = st.builds(
    NodeFacts,
    machine_id=texts.filter(bool),
    hostname=texts,
    instance_type=texts,
    purchase_option=texts.filter(bool),
    owns_machine=st.booleans(),
    vcpus=st.integers(0, 1000),
    effective_cpus=st.floats(0, 1000),
    memory_bytes=sizes,
    gpus=st.lists(gpus, max_size=3),
)
declarations = st.builds(
    Declaration,
    run_id=st.uuids(),
    job=texts.filter(bool),
    attempt=st.integers(0, 10**6),
    session_id=st.uuids(),
    node=nodes,
    owner=texts,
    tags=labels,
    parameters=st.dictionaries(texts.filter(bool), scalars, max_size=3),
    command=st.lists(texts, max_size=4),
    git_dirty=st.booleans(),
    workload=labels,
    allow_stop=st.booleans(),
)


def _document() -> dict[str, Any]:
    declaration = Declaration(UUID(int=1), "job", 0, UUID(int=2), NodeFacts("machine"))
    return json.loads(gzip.decompress(encode_declaration(declaration)))


def _body(document: Any) -> bytes:
    return gzip.compress(json.dumps(document).encode())


@given(declarations)
def test_what_goes_in_comes_out(declaration):
    assert decode_declaration(encode_declaration(declaration)) == declaration


def test_a_field_of_a_later_agent_is_ignored():
    document = _document() | {"colour": "red"}
    document["node"]["colour"] = "red"
    assert decode_declaration(_body(document)).job == "job"


BAD_FIELDS = [
    ("run_id", "nonsense", "run_id"),
    ("job", "", "job"),
    ("job", "nul \0", "job"),
    ("node", [], "node"),
    ("node", {}, "machine_id"),
    ("node", {"machine_id": "m", "gpus": ["T4"]}, "node.gpus"),
    ("node", {"machine_id": "m", "effective_cpus": math.nan}, "node.effective_cpus"),
    ("tags", {"a": 1}, "a"),
    ("tags", {"": "x"}, "tags"),
    ("tags", {"half \ud800": "x"}, "tags"),
    ("tags", {str(n): "x" for n in range(501)}, "tags"),
    ("parameters", {"lr": [1]}, "parameters.lr"),
    ("parameters", {"lr": math.nan}, "parameters.lr"),
    ("parameters", {"lr": math.inf}, "parameters.lr"),
    ("parameters", {"lr": 2**70}, "parameters.lr"),
    ("parameters", {"lr": "nul \0"}, "parameters.lr"),
    ("command", "python", "command"),
    ("command", [1], "command"),
    ("command", ["half \ud800"], "command"),
]


@pytest.mark.parametrize(("field", "value", "named"), BAD_FIELDS, ids=repr)
def test_a_bad_field_is_named_with_a_fix(field, value, named):
    with pytest.raises(WireError) as caught:
        decode_declaration(_body(_document() | {field: value}))
    assert caught.value.field == named
    assert caught.value.fix


@given(st.sampled_from(sorted(_document())), json_values)
def test_no_value_of_any_field_raises_anything_but_a_wire_error(field, value):
    try:
        declared = decode_declaration(_body(_document() | {field: value}))
    except WireError:
        return
    assert encode_declaration(declared)


@given(st.sampled_from(sorted(_document()["node"])), json_values)
def test_no_value_of_any_field_of_the_node_raises_anything_but_a_wire_error(field, value):
    document = _document()
    document["node"][field] = value
    try:
        declared = decode_declaration(_body(document))
    except WireError:
        return
    assert encode_declaration(declared)
