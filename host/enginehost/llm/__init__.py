"""Models: messages, the contract of model engines, and the service that talks to them."""
