"""Running, testing and measuring Tombola: scripts, the embedded servers, deployment files."""
