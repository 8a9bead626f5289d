"""Agents: sessions whose whole state is rows, and the runner that any process may take them over with."""
