"""The chapters of the conversation, one topic of the protocol each."""
