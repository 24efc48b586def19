"""Every table and figure of the paper by one command, resumable, and pages made of the results.

reproduce("table1", minutes=9); report(Path("results"), Path("."))
"""

from capsnet.experiments.reproduce.catalogue import EXPERIMENTS
from capsnet.experiments.reproduce.figures import DRAWINGS, draw
from capsnet.experiments.reproduce.pages import report
from capsnet.experiments.reproduce.run import Summary, reproduce
from capsnet.experiments.reproduce.shipping import ship

__all__ = ["DRAWINGS", "EXPERIMENTS", "Summary", "draw", "report", "reproduce", "ship"]
