"""A trained model on picture files: how it sees them, what it says, and when not to trust it.

predict(["photos"], "runs/mine")[0].decision
"""

from capsnet.prediction.answer import Prediction
from capsnet.prediction.asking import predict

__all__ = ["Prediction", "predict"]
