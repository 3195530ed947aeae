"""Outgoing calls: providers, signatures, and the isolation of slow receivers."""
