"""Both servers under the same load, in the same run, as ratios."""
