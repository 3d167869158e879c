"""For people: answers as text and JSON, pictures, and what a terminal can draw."""
