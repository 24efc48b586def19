"""What an experiment is, who makes its runs, and the lines they leave in results/."""
