from pathlib import Path

import pytest
from fake_call import write_fake_call


@pytest.fixture
def call(tmp_path: Path) -> tuple[Path, Path]:
    """The JSON document and the frame log of a fake call of six seconds."""
    return write_fake_call(tmp_path, seconds=6.0)
