import json
from dataclasses import replace

from PIL import Image

from capsnet.experiments import demo


def test_demo_trains_both_and_draws(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "MIN_EPOCHS", 1)
    monkeypatch.setattr(demo, "RECIPE", replace(demo.RECIPE, num_samples=300))
    # The large shipped networks are measured in tests/models.
    monkeypatch.setattr(demo, "list_models", lambda: ["capsnet_small", "cnn_small"])
    words = ("demo", "--seconds", 0.1, "--out", tmp_path / "demo")
    text = cli(*words).out
    assert "capsnet_small" in text and "cnn_small" in text and "Try next" in text
    assert "shipped weights" in text
    for name in ("reconstructions", "perturbation"):
        assert Image.open(tmp_path / "demo" / f"{name}.png").size[0] > 300

    done = cli(*words, "--json")  # the second replaces the first
    result = json.loads(done.out)
    assert [row["model"] for row in result["trained"]] == ["capsnet_small", "cnn_small"]
    assert all(0 <= row["error_percent"] <= 100 for row in result["trained"] + result["shipped"])


def test_demo_removes_nothing_but_a_demo(cli, tmp_path):
    (tmp_path / "capsnet_small").mkdir()
    (tmp_path / "capsnet_small" / "thesis.txt").write_text("precious")
    done = cli("demo", "--out", tmp_path)
    assert done.status == 2 and "choose another --out" in done.err
    assert (tmp_path / "capsnet_small" / "thesis.txt").read_text() == "precious"
