"""Compares the checkpoint of a file with what a witness of the log has seen."""

from __future__ import annotations

from runtime.commands.evidence.findings import Finding
from runtime.commands.groups.log.witness import State
from runtime.rules.log.notes import Checkpoint


def compare(state: State, checkpoint: Checkpoint | None, root: bytes | None = None) -> Finding:
    """Whether the file's log is the one of the witness.

    checkpoint: None if the file has none. root: of the file's first leaves, as many as the witness has seen; None: the
    file does not have them.
    """
    text, origin = "the log is the one that the witness has seen", state.verifiers[0].name
    if checkpoint is None or checkpoint.origin != origin:
        return Finding(f"{text}, {origin}", False)
    if checkpoint.size == state.size:
        root = checkpoint.root
    if root is None:
        sizes = f"the witness has seen {state.size:,} entries, the checkpoint has {checkpoint.size:,}"
        return Finding(f"{sizes}: get the file again, right after a visit", None)
    return Finding(text, root == state.tree.digest())
