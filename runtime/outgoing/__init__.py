"""What leaves the service: who carries it, how it is signed, and what keeps a slow receiver apart from the others."""
