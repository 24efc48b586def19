"""The server's API is fuzzed from its own description: each answer is what the description says."""

import io

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from PIL import Image
from schemathesis import GenerationMode
from visitors import HOST, exploring

FAULTS = {
    GenerationMode.POSITIVE: "a request to the server made up as its API is described",
    GenerationMode.NEGATIVE: "a request to the server made up against the description",
}
TAKE_NOTHING = ("/api/info", "/api/dimensions", "/api/poses")


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


@pytest.fixture(scope="module")
def explorer(trained, tmp_path_factory):
    with exploring(trained, tmp_path_factory.mktemp("description") / "log") as running:
        yield running


@pytest.mark.parametrize("mode", FAULTS, ids=lambda mode: mode.value)
def test_description_is_true(explorer, tally, mode):
    examples = tally.times(FAULTS[mode], many=100, few=10)
    api = schemathesis.openapi.from_url(f"http://{HOST}:{explorer.port}/api/openapi.json")
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) == 14
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.path in TAKE_NOTHING:
            continue  # nothing could be wrong

        @seed(0)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case):
            tally.tried += 1
            tally.noticed += case.call_and_validate().status_code >= 400

        holds()
    assert explorer.is_calm()
