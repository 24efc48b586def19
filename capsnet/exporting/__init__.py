"""Trained models for programs that do not know this package.

exported = export("runs/mine", "onnx"); exported.file, exported.difference
"""

from capsnet.exporting.exported import Exported, export

__all__ = ["Exported", "export"]
