"""Rows and the verbs for them: a slow obvious reference, a fast one, a composite of others."""
