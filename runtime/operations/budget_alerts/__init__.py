"""Budget and stock alerts: campaigns that use up their budget, and prizes that run low. They never block a play."""
