"""Actors: they load state, decide by the pure rules, commit one statement, and publish."""
