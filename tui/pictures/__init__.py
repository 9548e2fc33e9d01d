"""Pictures of the console, and the fixtures that test with them."""
