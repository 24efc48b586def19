"""The API is fuzzed from its own description, over a real connection."""

import io

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from schemathesis import GenerationMode


@st.composite
def pictures(draw, form):
    """Picture files of any size and grey level, with some ink."""
    width, height = draw(st.tuples(st.integers(2, 60), st.integers(2, 60)))
    image = Image.new("L", (width, height))
    image.paste(draw(st.integers(64, 255)), (0, 0, width // 2, height))
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


for form in ("PNG", "JPEG"):
    schemathesis.openapi.media_type(f"image/{form.lower()}", pictures(form))


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_description_is_true(address, mode):
    api = schemathesis.openapi.from_url(f"{address}/api/openapi.json")
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) == 14
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.path == "/api/info":
            continue  # it takes nothing that could be wrong

        @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case):
            case.call_and_validate()

        holds()
