"""Hardware partitions of cards: made for a container, known again, and taken down after it."""
