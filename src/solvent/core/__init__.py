"""What everything else stands on: exact numbers, files and archives, progress, limits, compiled kernels."""
