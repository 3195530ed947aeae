"""Players' login by phone or e-mail, on the consumer edge."""
