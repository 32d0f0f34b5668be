"""What a log knows of idempotent and transactional producers."""
