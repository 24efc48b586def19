"""Report: a finished run, or several, as one page that can be read, printed and sent.

write_report(Path("runs/scans")) of capsnet.report.writing writes it.
"""

from capsnet.errors import needs

with needs("The report needs jinja2 and scikit-learn", extra="pictures"):
    import jinja2  # noqa: F401
    import sklearn  # noqa: F401
