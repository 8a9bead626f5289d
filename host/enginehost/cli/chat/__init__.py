"""``enginehost chat``: a conversation with an agent, in this process or over HTTP."""
