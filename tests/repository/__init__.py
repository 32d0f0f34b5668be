"""Repository rules, checked by reading the sources: one test a rule, which lists every offender.

`NOT_YET` tables name what does not keep a rule so far; entries are removed, never added.
"""
