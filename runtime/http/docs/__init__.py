"""The API documents of a surface: OpenAPI, the page that shows it, AsyncAPI."""
