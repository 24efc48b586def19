import pytest
import torch

from capsnet.errors import UserError
from capsnet.models import create_model
from capsnet.training.config import TrainConfig


def test_own_pictures_get_the_modern_network_by_default(tmp_path):
    assert TrainConfig(data=str(tmp_path)).model == "capsnet_modern_small"
    assert TrainConfig(data="mnist").model == TrainConfig().model == "capsnet_mnist"
    assert TrainConfig(data=str(tmp_path), model="capsnet_small").model == "capsnet_small"


def test_a_folder_called_as_a_data_set_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mnist", "scans"):
        (tmp_path / name).mkdir()
    assert TrainConfig(data="mnist").model == "capsnet_mnist"
    for named in ("./mnist", "folder:mnist", "scans"):
        assert TrainConfig(data=named).shows_own_pictures
    with pytest.raises(UserError, match="stop-at-error needs a holdout"):
        TrainConfig(data="mnist", stop_at_error=5.0).check()
    with pytest.raises(UserError, match="folds are for pictures of your own"):
        TrainConfig(data="mnist", folds=5).check()


def test_the_cnn_beside_a_modern_network_has_its_stem():
    model = create_model("capsnet_modern_small", image_shape=(3, 32, 32))
    name, options = model.beside
    values = {k: eval(x) for k, _, x in (option.partition("=") for option in options)}
    other = create_model(name, image_shape=(3, 32, 32), **values)
    own, others = ([p.shape for p in m.stem.parameters()] for m in (model, other))
    assert own == others
    weights = [sum(p.numel() for p in m.parameters()) for m in (model.class_caps, other.features)]
    assert abs(weights[1] / weights[0] - 1) < 0.02
    assert torch.equal(torch.tensor(model.stem.size), torch.tensor(other.stem.size))
