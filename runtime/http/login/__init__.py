"""Login: players' by phone or e-mail on the consumer edge, staff's on the admin edge."""
