"""Nothing is found in a healthy run, whole or while it is going."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rules.scenarios.healthy_kinds import KINDS, Kind, findings, healthy
from tests.rules.scenarios.live import so_far


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_rule_fires_on_a_healthy_run(kind: Kind) -> None:
    run = healthy(kind, seed=0)
    assert findings(run) == {}
    assert findings(so_far(run, np.random.default_rng(1).uniform(60, 1800))) == {}
