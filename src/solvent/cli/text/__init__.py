"""Text and records that commands print."""
