"""The admin edge's streamed responses: exports and live figures."""
