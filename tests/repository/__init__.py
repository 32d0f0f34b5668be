"""Repository rules, checked by reading the sources: one test a rule, which lists every offender."""
