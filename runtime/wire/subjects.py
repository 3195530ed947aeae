"""Who staff are: the subject of their tokens, in one form, so that nobody counts as two people."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Characters that nothing is drawn for, although Unicode's categories count them as letters, marks or symbols."""


def subject_of(text: str) -> str:
    """The subject in the form that it is kept and compared in: NFC, without spaces around it."""
    return unicodedata.normalize("NFC", text).strip()


def is_seen(subject: str) -> bool:
    """Whether each character of it can be seen: two subjects that differ by what cannot would look alike."""
    return subject.isprintable() and _BLANK.search(subject) is None
