"""Reporting: figures, exports and live data of a tenant, for staff."""

from __future__ import annotations

from typing import Final

from runtime.operations.reporting.campaigns import GET_CAMPAIGN_FIGURES
from runtime.operations.reporting.exports import READ_EXPORT
from runtime.operations.reporting.live import GET_LIVE
from runtime.operations.reporting.views import RECORD_VIEW

ROWS: Final = (GET_CAMPAIGN_FIGURES, READ_EXPORT, GET_LIVE, RECORD_VIEW)
