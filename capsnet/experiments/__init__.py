"""Tables, figures and claims of the paper, one file each; their runner and their pages."""
