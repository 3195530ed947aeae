"""Offline checks of evidence files: draws, receipts of plays, dossiers of campaigns."""
