"""What real programs answered, and the programs that recorded it."""
