import json
import sys
from dataclasses import replace

import pytest
import torch

from capsnet.bench import heads, routing, step, stream
from capsnet.bench.report import last_benches, run_bench, table
from capsnet.bench.routing import WrongResult, bench_routing
from capsnet.bench.step import bench_inference, bench_step
from capsnet.errors import UserError
from capsnet.figures import save_figure
from capsnet.figures.speed import draw_speed

CPU = torch.device("cpu")


def test_routing_is_timed():
    result = bench_routing((2, 3), (8, 9), CPU, torch.float32, compiled=False)
    assert {row["variant"] for row in result["rows"]} == {"reference", "chunked"}
    assert len(result["rows"]) == 8
    assert all(row["forward_backward"]["median_ms"] > 0 for row in result["rows"])
    json.dumps(result)
    assert table(result).count("\n") == 9


def test_every_head_is_timed_beside_dynamic_routing(monkeypatch):
    small = {"channels": (8, 8), "primary_types": 2}
    names = {"dynamic, r = 3": {}, "em": {"routing": "em"}}
    smaller = {name: ("capsnet_modern", {**small, **o}) for name, o in names.items()}
    table = heads.Heads(smaller, "dynamic, r = 3", "digits")
    monkeypatch.setitem(heads.TABLES, "heads", table)
    rows = heads.bench_heads("heads", (2,), CPU)["rows"]
    assert [row["head"] for row in rows] == list(names)
    longer = "times that of dynamic, r = 3"
    assert rows[0][longer] == 1 and rows[1][longer] > 0
    assert 0 < rows[1]["parameters"] - rows[0]["parameters"] < 100


def test_every_way_to_fill_slots_is_timed(monkeypatch):
    table = heads.TABLES["slots"]
    small = {"channels": (8, 8), "primary_types": 2, "decoder": (8,)}
    networks = {name: (model, {**small, **o}) for name, (model, o) in table.networks.items()}
    monkeypatch.setitem(heads.TABLES, "slots", replace(table, networks=networks))
    result = heads.bench_heads("slots", (2,), CPU)
    assert result["bench"] == "slots"
    assert [row["head"] for row in result["rows"]] == list(networks)
    assert all(row["step"]["median_ms"] > 0 for row in result["rows"])


def test_wrong_routing_gets_no_time(monkeypatch):
    exact = routing.route
    monkeypatch.setattr(
        routing,
        "route",
        lambda u, W, backend: exact(u, W, backend) * (1 + 0.01 * (backend == "chunked")),
    )
    with pytest.raises(WrongResult, match=r"chunked routing is wrong .*no time is printed"):
        run_bench("inference", CPU, (1,), (), None, None, None, None)


def test_result_says_how_exact_routing_is_and_where_it_was_made():
    result = run_bench("inference", CPU, (1,), (), None, None, None, None)
    assert 0 < max(result["error_over_reference"].values()) < 3
    assert {"device", "threads", "versions", "commit", "date"} <= result.keys()


def test_plot_is_a_picture(tmp_path):
    from PIL import Image

    result = bench_routing((2, 3), (8,), CPU, torch.float32, compiled=False)
    save_figure(draw_speed(result), tmp_path / "plot.png")
    assert Image.open(tmp_path / "plot.png").size[0] > 500


def test_plot_draws_what_was_called_fused_before_it_was_chunked():
    result = bench_routing((2, 3), (8,), CPU, torch.float32, compiled=False)
    for row in result["rows"]:
        row["variant"] = row["variant"].replace("chunked", "fused")
    labels = [line.get_label() for line in draw_speed(result).axes[0].get_lines()]
    assert labels == ["reference", "fused"]


def test_peer_is_timed_beside_ours(tmp_path):
    (tmp_path / "bench_peer.py").write_text(
        "import torch\n"
        "def make_step(batch_size, device):\n"
        "    return lambda: torch.zeros(batch_size, device=device)\n"
    )
    rows = bench_step((1,), CPU, tmp_path)["rows"]
    assert [row["variant"] for row in rows][-1] == f"peer {tmp_path.name}"
    assert rows[-1]["step"]["median_ms"] < rows[0]["step"]["median_ms"]


def test_what_is_missing_is_said_before_anything_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(step, "measure", None)
    with pytest.raises(UserError, match=r"There is no .*bench_peer\.py; write one"):
        step.bench_step((1,), CPU, tmp_path)
    with pytest.raises(UserError, match="did you mean 'digits'"):
        step.bench_epoch((1,), CPU, "digit", None)


@pytest.mark.parametrize("line", ["no JSON", "5", "{}"])
def test_a_line_that_no_benchmark_wrote_is_named(line, tmp_path):
    (tmp_path / "bench.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"no benchmark wrote|Line 1 of .* as it was written"):
        last_benches(tmp_path)


def test_inference_counts_images():
    row = bench_inference((2,), CPU)["rows"][0]
    assert row["images_per_second"] == pytest.approx(2e3 / row["forward"]["median_ms"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told to forget a file")
def test_images_on_the_disk_are_timed_beside_those_in_memory(monkeypatch):
    smaller = {"NUM": 4000, "SHAPE": (3, 20, 20), "ROUNDS": 2, "STEPS": 2}
    for name, value in smaller.items():
        monkeypatch.setattr(stream, name, value)
    monkeypatch.setattr(stream, "MODELS", {stream.ALONE: {}, "cnn_small": {"channels": 2}})
    rows = run_bench("stream", CPU, (64,), (), None, None, None, None)["rows"]
    assert [row["model"] for row in rows] == [stream.ALONE] * 3 + ["cnn_small"] * 3
    memory, cached, disk = rows[3:]
    assert memory["times_memory"] == 1 and all(row["images_per_second"] > 0 for row in rows)
    assert memory["MB_read"] == cached["MB_read"] == 0
    on_tmpfs = disk["MB_read"] == 0
    if not on_tmpfs:  # every image is read, in whole pages, and few that nobody asked for
        assert 2 * 64 * 1200 < 1e6 * disk["MB_read"] < 4 * 2 * 64 * (1200 + 2 * 4096)
