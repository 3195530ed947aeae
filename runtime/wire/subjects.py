"""Who staff are: the subject of their tokens, in one form, so that nobody counts as two people."""

from __future__ import annotations

import unicodedata


def subject_of(text: str) -> str:
    """The subject in the form that it is kept and compared in: NFC, without spaces around it."""
    return unicodedata.normalize("NFC", text).strip()
