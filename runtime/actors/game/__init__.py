"""The play path: a game's actor, its cache, and how it decides and commits a batch of plays."""
