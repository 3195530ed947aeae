"""Prizes."""
