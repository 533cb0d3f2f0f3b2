"""The interactive wind tunnel: a page on this machine that shows what an objective does to three outcomes."""
