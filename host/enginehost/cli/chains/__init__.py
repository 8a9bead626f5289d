"""What the commands about recorded chains share."""
