"""Data that lives on the device: verified sources, streams of batches, and one table of names.

Usage: stream = capsnet.data.open_data("digits", "train", augment=Augment(shift=2))
"""

from capsnet.data.entries import Entry, Request
from capsnet.data.registry import (
    SplitName,
    find_data,
    list_data,
    open_data,
    register_data,
)
from capsnet.data.sets.own import Own, load_folder, open_own
from capsnet.data.sets.pictures import read_image
from capsnet.data.sources.locate import locate
from capsnet.data.splits.factors import Factors
from capsnet.data.splits.reports import check, fetch
from capsnet.data.splits.split import Split, stratified
from capsnet.data.streams.affine import AffineStream, CanvasStream
from capsnet.data.streams.ahead import ahead, cut
from capsnet.data.streams.augmentation import Augment
from capsnet.data.streams.balanced import BalancedStream
from capsnet.data.streams.overlap import OverlapStream, bounding_box_overlap
from capsnet.data.streams.stream import ImageStream, Plan, Stream
from capsnet.files import cache_folder

__all__ = [
    "AffineStream",
    "Augment",
    "BalancedStream",
    "CanvasStream",
    "Entry",
    "Factors",
    "ImageStream",
    "OverlapStream",
    "Own",
    "Plan",
    "Request",
    "Split",
    "SplitName",
    "Stream",
    "ahead",
    "bounding_box_overlap",
    "cache_folder",
    "check",
    "cut",
    "fetch",
    "find_data",
    "list_data",
    "load_folder",
    "locate",
    "open_data",
    "open_own",
    "read_image",
    "register_data",
    "stratified",
]
