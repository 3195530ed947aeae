"""The dashboard, where staff run campaigns: served by the admin edge at /dashboard."""
