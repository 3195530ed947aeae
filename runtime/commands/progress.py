"""A progress display on standard error, hidden with --json and outside a terminal."""

from __future__ import annotations

from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from runtime.commands.connection import progress_console


def progress(as_json: bool, *columns: ProgressColumn) -> Progress:
    """A display with the task's description, these columns and the elapsed time."""
    console = progress_console()
    shown = (TextColumn("{task.description}"), *columns, TimeElapsedColumn())
    return Progress(*shown, console=console, disable=as_json or not console.is_terminal, transient=True)
