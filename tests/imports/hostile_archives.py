"""Archives as nobody's tool writes them: each tries to leave its folder, or to cost too much."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.imports.mutating import mutations

Named = Iterator[tuple[str, bytes]]
BLOCK = 512
END = bytes(2 * BLOCK)
KIB, MIB, GIB, EIB = 2**10, 2**20, 2**30, 2**60
SIZES = (1, MIB, 1536 * MIB, 2**33, 8 * EIB - 1)


def header(
    name: bytes, size: int = 0, kind: bytes = b"0", link: bytes = b"", rest: bytes = b""
) -> bytes:
    """Return one block. `rest`: from the 345th byte on, where GNU's formats keep maps of sparse
    files.
    """
    number = b"%011o\0" % size if 0 <= size < 8**11 else (size % 2**95 | 2**95).to_bytes(12, "big")
    if size < 0:
        number = (256**12 + size).to_bytes(12, "big")
    fields = (
        name[:100].ljust(100, b"\0"), b"0000644\0", b"0000000\0" * 2, number, b"00000000000\0",
        b" " * 8, kind, link[:100].ljust(100, b"\0"), b"ustar\x0000" if not rest else b"ustar  \0",
        bytes(80), rest,
    )  # fmt: skip
    block = b"".join(fields).ljust(BLOCK, b"\0")[:BLOCK]
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def member(name: bytes, content: bytes = b"", kind: bytes = b"0", link: bytes = b"") -> bytes:
    return header(name, len(content), kind, link) + padded(content)


def records(*said: tuple[bytes, bytes]) -> bytes:
    """Return the records of a PAX header."""
    made = b""
    for key, value in said:
        length = len(key) + len(value) + 3
        length += len(str(length + len(str(length))))
        made += b"%d %s=%s\n" % (length, key, value)
    return made


def pax(*said: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    return member(b"PaxHeader", records(*said), kind)


def packed(*parts: bytes) -> bytes:
    return gzip.compress(b"".join(parts) + END, 1, mtime=0)


def old_sparse(size: int, maps: int = 0) -> bytes:
    """Return GNU's old form: a hole of nearly the whole size, and so many blocks with more of the
    map.
    """
    pairs = b"%011o\0%011o\0" % (0, 0) + bytes(72)
    number = b"\x80" + size.to_bytes(11, "big")
    rest = bytes(41) + pairs + (b"\1" if maps else b"\0") + number
    more = b"".join(bytes(504) + (b"\1" if n + 1 < maps else b"\0") + bytes(7) for n in range(maps))
    return header(b"hole.bin", 0, b"S", rest=rest) + more


def sparse() -> Named:
    for size in SIZES:
        said = b"%d" % size
        for maps in (0, 1, 3):
            yield f"old sparse of {size}, {maps} maps", packed(old_sparse(size, maps))
        first = (b"GNU.sparse.size", said), (b"GNU.sparse.numblocks", b"1")
        pairs = (b"GNU.sparse.offset", said), (b"GNU.sparse.numbytes", b"0")
        yield f"sparse 0.0 of {size}", packed(pax(*first, *pairs), member(b"a.bin"))
        mapped = (b"GNU.sparse.map", said + b",0"), (b"GNU.sparse.name", b"../../out")
        yield f"sparse 0.1 of {size}", packed(pax(*first, *mapped), member(b"a.bin"))
        version = (b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0")
        real = (b"GNU.sparse.realsize", said), (b"GNU.sparse.name", b"/out")
        content = padded(b"1\n" + said + b"\n0\n")
        yield f"sparse 1.0 of {size}", packed(pax(*version, *real), member(b"a.bin", content))
        yield f"sparse for all of {size}", packed(pax(*version, *real, kind=b"g"), member(b"a.bin"))
    yield "endless map", packed(old_sparse(GIB, 20_000))


def sizes() -> Named:
    for said in (b"-1", b"99999999999999999999", b"9" * 5000, b"1e3", b"", b"0x10", b"\xd9\xa1"):
        yield f"PAX size {said[:8]!r}", packed(pax((b"size", said)), member(b"a", b"x" * 600))
    for said in (b"0", b"1", b"600", b"601", b"100000", b"9999999"):
        yield f"wrong PAX size {said!r}", packed(pax((b"size", said)), member(b"a", b"x" * 600))
    for size in (-1, -(2**40), 513, *SIZES):
        yield f"size {size} of nothing", packed(header(b"a", size))
        yield f"link of size {size}", packed(header(b"a", size, b"1", b"b"), member(b"b", b"x"))
        yield f"unknown kind of size {size}", packed(header(b"a", size, b"Q"))
    yield "bomb", packed(*[header(b"zeros", 16 * MIB), bytes(16 * MIB)])
    yield "bomb of a device", packed(header(b"zeros", 16 * MIB, b"Q"), bytes(16 * MIB))
    yield "just too large", packed(member(b"a", bytes(MIB - 4 * KIB)), member(b"b", bytes(8 * KIB)))
    yield "tiny files", packed(*(member(b"%d" % n, b"x") for n in range(5_000)))
    yield "empty files", packed(*(member(b"%d" % n) for n in range(5_000)))


def extended() -> Named:
    for kind in (b"x", b"g", b"X", b"L", b"K"):
        for size in (-1, 2 * MIB, *SIZES):
            yield f"{kind!r} of size {size}", packed(header(b"h", size, kind))
        yield f"{kind!r} of 20 MiB", packed(header(b"h", 20 * MIB, kind), bytes(20 * MIB))
        chain = member(b"h", records((b"path", b"a")) if kind in b"xgX" else b"name\0", kind)
        yield f"chain of {kind!r}", packed(chain * 20_000, member(b"a"))
        yield f"only {kind!r}", packed(chain)
        yield f"{kind!r} of nothing", packed(header(b"h", 0, kind), member(b"a", b"x"))
    for said in (b"0 a=b\n", b"999 a=b\n", b"5 ab\n", b"-6 a=b\n", b"x", b"6 path=", b"\xff" * 99):
        yield f"PAX records {said[:8]!r}", packed(member(b"h", said, b"x"), member(b"a", b"x"))
    yield "digits", packed(member(b"h", b"9" * 60_000, b"x"), member(b"a", b"x"))
    many = records(*((b"k%d" % n, b"") for n in range(5_000)))
    yield "many records", packed(*[member(b"h", many, b"x"), member(b"a", b"x")] * 50)
    yield "many records for all", packed(*[member(b"h", many, b"g")] * 50)


def names() -> Named:
    bad = (
        b"/etc/out", b"../out", b"a/../../out", b"//out", b"..", b".", b"", b"/", b"a/..",
        b"./../out", b"a//../..//out", b"\xff\xfe/name", b"a\nb", b"a\0b", b"x" * 99,
        b"d/" * 41 + b"f", b"d/" * 49, b"con/" + b"\xe2\x80\xae.txt", b"~/out", b"-rf", b"C:\\out",
    )  # fmt: skip
    for name in bad:
        yield f"name {name[:20]!r}", packed(member(name, b"x"), member(b"good", b"x"))
        yield f"PAX name {name[:20]!r}", packed(pax((b"path", name)), member(b"a", b"x"))
        yield f"long name {name[:20]!r}", packed(member(b"l", name, b"L"), member(b"a", b"x"))
    for length in (251, 255, 256, 1_000, 4_096, 60_000):
        said = member(b"l", b"n" * length + b"\0", b"L")
        yield f"name of {length}", packed(said, member(b"a", b"x"), member(b"good", b"x"))
        wide = pax((b"path", "é".encode() * length))
        yield f"wide name of {length}", packed(wide, member(b"a", b"x"), member(b"good", b"x"))
    deep = b"/".join([b"n" * 120] * 39)
    yield "long path", packed(pax((b"path", deep)), member(b"a", b"x"), member(b"good", b"x"))


def links() -> Named:
    aims = (b"/etc/passwd", b"../../outside", b"outside", b".", b"/", b"a/../../outside", b"")
    for aim in aims:
        for kind, called in ((b"1", "hard"), (b"2", "soft")):
            through = member(b"a", b"", kind, aim), member(b"a", b"x"), member(b"a/b", b"x")
            yield f"{called} link to {aim!r}, written through", packed(*through)
            said = member(b"k", aim + b"\0", b"K"), pax((b"linkpath", aim))
            yield f"long {called} link to {aim!r}", packed(*said, member(b"a", b"", kind))
    for kind in (b"3", b"4", b"6", b"7", b"D", b"M", b"N", b"V", b"A", b"\xff", b"\n"):
        yield f"kind {kind!r}", packed(member(b"dev/null", b"", kind), member(b"good", b"x"))


def doubled() -> Named:
    twins = ((b"a", b"a"), (b"a/b", b"a/./b"), (b"a/b", b"./a//b"), (b"a", b"a/b"), (b"a/b", b"a"))
    for first, second in (*twins, (b"A", b"a"), ("é".encode(), "e\u0301".encode())):
        both = member(first, b"1" * 9_000), member(second, b"2" * 9_000)
        yield f"{first!r} and {second!r}", packed(*both)
        yield f"{second!r} and {first!r}, often", packed(*both * 500)


def folders() -> Named:
    deep = (b"/".join([b"%x" % (n * 40 + d) for d in range(17)]) + b"/f" for n in range(60_000))
    yield "10^6 folders on the way", packed(*map(member, deep))
    same = header(b"folder/", 0, b"5")
    yield "50,000 folders of one name", packed(same * 50_000)
    yield "folders", packed(*(header(b"%d/" % n, 0, b"5") for n in range(5_000)))
    wide = (b"%0250d/%0250d/f" % (n, n) for n in range(1_000))
    yield "long folders", packed(*(pax((b"path", name)) + member(b"a") for name in wide))


def streams() -> Named:
    whole = b"".join(member(b"f%d" % n, random.Random(n).randbytes(3_000)) for n in range(20))
    body = packed(whole)
    for at in range(0, len(body), len(body) // 12):
        yield f"cut off at {at}", body[:at]
    yield "followed by something", body + b"something" * 100
    yield (
        "of members",
        b"".join(gzip.compress(whole[at : at + 999]) for at in range(0, 70_000, 999)),
    )
    yield "of empty members", gzip.compress(b"") * 100_000 + body
    yield "a name of its own", b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MIB
    yield "within another", gzip.compress(gzip.compress(gzip.compress(body)))
    yield "no tar", gzip.compress(b"x" * 5_000)
    yield "zeros", gzip.compress(bytes(16 * MIB), 9)
    yield "nothing", b""
    yield "an empty stream", gzip.compress(b"")
    yield "a tar, not packed", whole + END
    yield "a quine", _self_similar(body)
    yield from _zips()


def _self_similar(body: bytes) -> bytes:
    """Return a packed archive that has a packed archive that has ..."""
    for _ in range(30):
        body = packed(member(b"a.tar.gz", body))
    return body


def _zips() -> Named:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("a", "w", force_zip64=True) as content:
        content.write(b"x")
    yield "zip64", file.getvalue()
    yield "zip64, packed", gzip.compress(file.getvalue())


def damaged(count: int) -> Named:
    """Return an honest archive with some bytes of its own, or of its packing, changed."""
    honest = io.BytesIO()
    with tarfile.open(fileobj=honest, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(8):
            info = tarfile.TarInfo(f"folder-{number}/" + "n" * 30 * number + ".json")
            info.size = 700 * number
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    chance = random.Random(39)
    for number in range(count):
        changed = mutations(honest.getvalue(), chance)
        body = (
            gzip.compress(changed, 1) if number % 3 else mutations(gzip.compress(changed), chance)
        )
        yield f"damaged {number}", body


FAMILIES = (sparse, sizes, extended, names, links, doubled, folders, streams)


def every(damages: int = 60) -> Iterator[tuple[str, bytes]]:
    for family in FAMILIES:
        yield from family()
    yield from damaged(damages)


def on_disk(paths: Iterable[Path]) -> tuple[int, int]:
    """Return the bytes of blocks, and the number of inodes."""
    found = [path.lstat() for path in paths]
    return sum(each.st_blocks * 512 for each in found), len(found)
