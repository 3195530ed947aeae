"""Progress, as people see it on standard error; machines see none."""

from __future__ import annotations

from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from runtime.commands.connection import progress_console


def progress(as_json: bool, *columns: ProgressColumn) -> Progress:
    """Shows what is under way, these columns and the time."""
    console = progress_console()
    shown = (TextColumn("{task.description}"), *columns, TimeElapsedColumn())
    return Progress(*shown, console=console, disable=as_json or not console.is_terminal, transient=True)
