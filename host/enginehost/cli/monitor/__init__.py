"""What `enginehost monitor` is made of."""
