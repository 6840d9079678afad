"""The abilities of a GPU model, by its name."""

from __future__ import annotations

import re

_TF32 = re.compile(
    r"\b(A2|A10G?|A16|A30|A40|A100|A800|H20|H100|H200|H800|GH200|B100|B200|B300|GB200|GB300"
    r"|L4|L20|L40S?|RTX A\d{3,4}|RTX [345]0[5-9]0|RTX \d{4} Ada|RTX PRO \d{4})\b",
    re.IGNORECASE,
)
_NO_TF32 = re.compile(
    r"\b(V100S?|T4|P100|P40|P4|K80|M60|GTX|GV100|RTX 20[5-9]0|Quadro|TITAN|Instinct|MI\d{2,3}X?)\b",
    re.IGNORECASE,
)


def has_tf32(model: str) -> bool | None:
    """Return whether tensor cores of the GPU compute in TF32, as NVIDIA's do from compute
    capability 8.0 on (Ampere, 2020); None for a name that isn't known.
    """
    # The driver writes "A100-SXM4-40GB" and "NVIDIA A100 80GB PCIe".
    name = re.sub(r"[-_]", " ", model)
    if _NO_TF32.search(name):
        return False
    return True if _TF32.search(name) else None
