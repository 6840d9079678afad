"""The decoders of what people import, and of MLflow's filters, with inputs that damage or malice
makes."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from advisor.importers.archive import unpack
from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path
from bench.fuzz import Decoder
from tests.imports.mutating import mutations
from tests.imports.test_mutated import FORMATS, recording
from tests.service import hostile
from webapp.imports.description import read_description
from webapp.mlflow_api.errors import MlflowError
from webapp.mlflow_api.searching import conditions, order

FORMAT_SHARE, ARCHIVE_SHARE = 0.04, 0.25
"""The number of inputs as a share of those of a decoder that reads no files."""
MOST_TEXT_CHARS = 8_000
FOLDERS = tempfile.TemporaryDirectory(prefix="trimtab-fuzz-imports-")
Files = dict[str, bytes]
_FACTS = {
    "attributes": {"run_name": "first", "status": "FINISHED", "start_time": 1_767_000_000_000},
    "metrics": {"loss": 0.25, "system/gpu": 1e308},
    "params": {"lr": "0.1", "text": "%" * 500 + "_" * 500},
    "tags": {"team": "a" * MOST_TEXT_CHARS, "mlflow.user": "ada", "mixed": "aAbBİıß" * 900},
}


def import_decoders() -> Iterator[Decoder]:
    for form in FORMATS:
        files, stated = _recorded(form)
        refusals = (NotImportableError,)
        damaged = _damaged_files(files)
        decode = _importing(stated)
        yield Decoder(f"import of {form}", damaged, decode, refusals, FORMAT_SHARE)
    yield Decoder("archive", archive, _unpacked, (NotImportableError,), ARCHIVE_SHARE)
    yield Decoder("import description", description, _described, (NotImportableError,))
    yield Decoder("MLflow filter", search, _searched, (MlflowError,))


def _recorded(form: str) -> tuple[Files, StatedFacts]:
    folder = Path(FOLDERS.name, "whole", form)
    folder.parent.mkdir(exist_ok=True)
    stated = recording(form, folder)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}, stated


def _damaged_files(files: Files) -> Callable[[random.Random], Files]:
    def damaged(chance: random.Random) -> Files:
        return {
            name: mutations(body, chance) if chance.random() < 0.7 else body
            for name, body in files.items()
        }

    return damaged


def _importing(stated: StatedFacts) -> Callable[[object], None]:
    def imported(files: object) -> None:
        assert isinstance(files, dict)
        folder = Path(FOLDERS.name, "damaged")
        shutil.rmtree(folder, ignore_errors=True)
        for name, body in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        run = import_path(folder, stated)
        json.dumps(run.imported.document()).encode()

    return imported


# Archives


def archive(chance: random.Random) -> bytes:
    """Return a tar.gz whose headers, content or compression is damaged."""
    packed = io.BytesIO()
    form = chance.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
    with tarfile.open(fileobj=packed, mode="w", format=form) as written:
        for _ in range(chance.randint(1, 4)):
            written.addfile(*_member(chance, form))
    body = packed.getvalue()
    for _ in range(chance.randint(0, 2)):
        body = hostile.flipped(chance, body)
    compressed = gzip.compress(body, 1)
    return hostile.flipped(chance, compressed) if chance.random() < 0.2 else compressed


def _member(chance: random.Random, form: int) -> tuple[tarfile.TarInfo, io.BytesIO]:
    names = ["a.json", "../a", "/etc/a", "a/" * 60 + "b", "n" * 90, "a.json/b", ".", "ü.csv"]
    member = tarfile.TarInfo(chance.choice(names))
    kinds = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
    member.type = chance.choice([*[tarfile.REGTYPE] * 4, tarfile.GNUTYPE_SPARSE, *kinds])
    member.linkname = chance.choice(["", "a.json", "/etc/passwd", "../.."])
    content = chance.randbytes(chance.choice([0, 10, 700])) if member.isreg() else b""
    member.size = len(content)
    if form == tarfile.PAX_FORMAT and chance.random() < 0.3:
        keys = ["size", "path", "GNU.sparse.realsize", "GNU.sparse.map", "linkpath", "mtime"]
        member.pax_headers = {chance.choice(keys): str(chance.choice(hostile.NUMBERS))}
    return member, io.BytesIO(content)


def _unpacked(body: object) -> None:
    assert isinstance(body, bytes)
    folder = Path(FOLDERS.name, "unpacked")
    shutil.rmtree(folder, ignore_errors=True)
    unpack(io.BytesIO(body), folder, Tally())


# Descriptions


def description(chance: random.Random) -> bytes:
    document = {
        "version": 1,
        "name": "vision",
        "parts": ["0" * 64, "a" * 64],
        "stated": {
            "job": "train.py",
            "provider": "aws",
            "region": "us-east-1",
            "columns": {"GPU": "gpu0.busy_pct"},
            "interval_seconds": 0.5,
            "started_at": "2026-11-24T08:00:00+00:00",
        },
        "describe": {
            "TrainingJobName": "a",
            "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 2},
            "TrainingStartTime": "2025-12-31T23:59:00+00:00",
            "HyperParameters": {"epochs": "3"},
        },
    }
    text = json.dumps(hostile.changed(chance, document)).encode()
    return hostile.flipped(chance, text) if chance.random() < 0.2 else text


def _described(body: object) -> None:
    assert isinstance(body, bytes)
    read_description(body, datetime.now(UTC))


# MLflow's filters


def search(chance: random.Random) -> str:
    """Return a filter that is right or nearly right, such as made a backtracking engine slow."""
    parts = [_condition(chance) for _ in range(chance.choice([1, 1, 2, 5, 60]))]
    text = chance.choice([*[" and ", " AND "] * 4, " or ", " "]).join(parts)
    if chance.random() < 0.2:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(["'", "(", "%" * 99, " " * 5_000, "`", "\0"]) + text[at:]
    return text


def _condition(chance: random.Random) -> str:
    groups = [*["tags", "params"] * 8, "metrics", "attributes", "attr", "nothing", "run"]
    keys = ["team", "text", "mixed", "loss", "`mlflow.user`", '"a b"', "run_name", "x" * 300]
    operators = ["LIKE"] * 4 + ["ILIKE"] * 4 + ["=", "!=", "<", ">=", "IN", "NOT IN", "IS NULL"]
    operator = chance.choice(operators)
    said = f"{chance.choice(groups)}.{chance.choice(keys)} {operator}"
    return said if operator == "IS NULL" else f"{said} {_value(chance, operator)}"


def _value(chance: random.Random, operator: str) -> str:
    if operator.endswith("LIKE"):
        pieces = chance.choices(["%", "%%", "_", "a", "b", "aA", "\\%", "ß", "i" * 50], k=30)
        return f"'{''.join(pieces[: chance.randint(1, 30)])}'"
    if operator.endswith("IN"):
        return f"({', '.join(repr(str(value)) for value in chance.choices(hostile.NUMBERS, k=9))})"
    text = str(chance.choice([*hostile.NUMBERS, *hostile.TEXTS]))
    return chance.choice([text, *[f"'{text}'"] * 6, f'"{text}"'])


def _searched(text: object) -> None:
    assert isinstance(text, str)
    conditions(text).hold(_FACTS)
    order([text[:300]])
