"""`odradek lag`: whether groups keep up, judged by what they have committed."""
