"""A plugin for enginehost: the engine kind ``Text`` and an observer of slow calls."""
