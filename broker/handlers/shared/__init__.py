"""What several handlers use: outcomes, the table of APIs, checks and waits."""
