"""Playwright's types. Without playwright the tests of pages are left out (tests.support.browsing)."""

from typing import Any

try:
    from playwright.async_api import Browser, Dialog, Locator, Page, Route
except ImportError:
    Browser = Dialog = Locator = Page = Route = Any

__all__ = ["Browser", "Dialog", "Locator", "Page", "Route"]
