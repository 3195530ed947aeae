"""Those who act: they load, decide with the pure rules, commit one statement, and publish."""
