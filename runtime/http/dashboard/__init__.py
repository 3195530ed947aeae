"""The dashboard: the page by which staff run campaigns, on the admin edge at /dashboard."""
