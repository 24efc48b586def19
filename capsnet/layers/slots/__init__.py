"""Slots: class capsules K times over, so that an image can hold two objects of one class.

A binding says which part of each capsule belongs to which slot, in three ways: by synchrony of
phases, by attention, or by routing to all slots at once.

v, shares = SynchronySlots(grid=(6, 6, 16), lower_dim=8, num_slots=3)(u)
"""

from capsnet.layers.slots.attention import AttentionSlots
from capsnet.layers.slots.dynamic import DynamicSlots
from capsnet.layers.slots.synchrony import SynchronySlots

__all__ = ["AttentionSlots", "DynamicSlots", "SynchronySlots"]
