"""Tombola: fair promotional games, rewards and wallets."""

__version__ = "0.1.0"
