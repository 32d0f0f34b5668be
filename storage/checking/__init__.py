"""Checks the directories of log.dirs of a stopped broker; changes nothing."""
