"""The built-in reward handlers."""
