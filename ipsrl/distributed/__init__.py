"""Start-up, mesh and placement."""
