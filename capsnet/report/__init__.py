"""Report: a finished run, or several, as one page that can be read, printed and sent."""
