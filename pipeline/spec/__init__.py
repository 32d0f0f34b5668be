"""The models of pipeline and mirror files, and the reports of their errors."""
