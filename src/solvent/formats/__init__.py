"""Model files: one module per format."""
