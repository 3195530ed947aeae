"""The documents that a surface serves of itself: OpenAPI, the page that shows it, AsyncAPI."""
