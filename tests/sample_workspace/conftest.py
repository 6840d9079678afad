from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sample_workspace.opened import SampleWorkspace, open_sample


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleWorkspace]:
    workspace = open_sample(tmp_path_factory.mktemp("sample"))
    yield workspace
    workspace.close()
