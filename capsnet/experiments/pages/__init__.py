"""Pages written from results: tables, plots, and the cards of shipped weights."""
