"""The canonical form of staff subjects, so that one person cannot count as two."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Blank characters that Unicode's categories nevertheless count as letters, marks or symbols."""


def subject_of(text: str) -> str:
    """The subject as it is stored and compared: NFC, without surrounding spaces."""
    return unicodedata.normalize("NFC", text).strip()


def is_visible(subject: str) -> bool:
    """Whether all characters are visible: subjects that differ only in invisible ones would look alike."""
    return subject.isprintable() and _BLANK.search(subject) is None
