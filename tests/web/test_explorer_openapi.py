"""The API is fuzzed from its own description, over a real connection."""

import io

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from schemathesis import GenerationMode


@st.composite
def pngs(draw):
    """Pictures of any size and grey level, with some ink."""
    image = Image.new("L", draw(st.tuples(st.integers(2, 60), st.integers(2, 60))))
    image.putpixel((0, 0), draw(st.integers(1, 255)))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


schemathesis.openapi.media_type("image/png", pngs())


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_description_is_true(address, mode):
    api = schemathesis.openapi.from_url(f"{address}/api/openapi.json")
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) == 10
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.path == "/api/info":
            continue  # it takes nothing that could be wrong

        @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case):
            case.call_and_validate()

        holds()
