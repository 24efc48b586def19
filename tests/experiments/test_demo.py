from dataclasses import replace

from PIL import Image

from capsnet.experiments import demo


def test_demo_trains_both_and_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "MIN_EPOCHS", 1)
    monkeypatch.setattr(demo, "RECIPE", replace(demo.RECIPE, num_samples=300))
    for _ in range(2):  # the second replaces the first
        demo.run_demo(0.1, tmp_path / "demo")
    text = capsys.readouterr().out
    assert "capsnet_small" in text and "cnn_small" in text and "Try next" in text
    assert "shipped weights" in text
    for name in ("reconstructions", "perturbation"):
        assert Image.open(tmp_path / "demo" / f"{name}.png").size[0] > 300
