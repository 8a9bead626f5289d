"""Models of OpenAI, and of every server that speaks its APIs, for enginehost."""
