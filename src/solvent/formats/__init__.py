"""Model files: one module per format, listed in `solvent.formats.registry`."""
