"""Data sets in their own formats, each read into a Split."""
