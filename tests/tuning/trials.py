"""Trials that take about a second, with too few steps for the default learning rate."""

from capsnet.training.config import TrainConfig
from capsnet.training.settings_file import changed, words_of

TINY = TrainConfig(
    model="capsnet_small",
    data="digits",
    options=("conv_channels=8", "primary_types=4", "decoder=(16,)"),
    num_samples=400,
    holdout=300,
    batch_size=50,
    epochs=3,
    device="cpu",
)
SEARCH = ("lr=1e-3..1e-2:log", "averaging=0.0,0.999")
WORDS = [*words_of(changed(TINY)), "--search", *SEARCH]
