"""The text and the JSON records that commands print."""
