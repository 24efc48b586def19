import json
import re
from dataclasses import replace

from capsnet.experiments import demo, demo_page


def test_demo_trains_both_and_shows_it(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "MIN_EPOCHS", 1)
    for name in ("CAPSNET", "CNN"):
        monkeypatch.setattr(demo, name, replace(getattr(demo, name), num_samples=300))
    # The large shipped networks are measured in tests/models.
    monkeypatch.setattr(demo, "list_models", lambda: ["capsnet_small", "cnn_small"])
    out = tmp_path / "demo"
    words = ("demo", "--seconds", 0.1, "--out", out)
    text = cli(*words).out
    assert "capsnet_small" in text and "cnn_small" in text and "shipped weights" in text
    assert str(out / "demo.html") in text
    last = text.splitlines()[-1].split()
    assert last[:3] == ["capsnet", "explore", "--weights"] and last[-1] == "--open"
    assert (out / "capsnet_small" / "weights.safetensors").samefile(
        f"{last[3]}/weights.safetensors"
    )

    done = cli(*words, "--json")  # the second replaces the first
    result = json.loads(done.out)
    assert [row["model"] for row in result["trained"]] == ["capsnet_small", "cnn_small"]
    assert all(0 <= row["error_percent"] <= 100 for row in result["trained"] + result["shipped"])

    page = (out / "demo.html").read_text(encoding="utf-8")
    for row in result["trained"]:
        assert f'{row["model"]}</th><td class="n">{row["error_percent"]:.1f} %' in page
    loaded = re.findall(r"(?:src|href)=\"([^\"]*)", page)
    assert all(url.startswith("data:image/png;base64,") for url in loaded)
    num_wrong = min(demo_page.MOST_WRONG, result["trained"][0]["num_wrong"])
    num_strips = 10  # of a picture and a sheet of drawings
    assert len(loaded) == 2 * (demo_page.NUM_DRAWN + num_wrong + num_strips)


def test_demo_removes_nothing_but_a_demo(cli, tmp_path):
    (tmp_path / "capsnet_small").mkdir()
    (tmp_path / "capsnet_small" / "thesis.txt").write_text("precious")
    done = cli("demo", "--out", tmp_path)
    assert done.status == 2 and "choose another --out" in done.err
    assert (tmp_path / "capsnet_small" / "thesis.txt").read_text() == "precious"
