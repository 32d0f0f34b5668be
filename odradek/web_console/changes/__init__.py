"""What the console changes in a cluster: planned first, shown, and done when it is confirmed."""
