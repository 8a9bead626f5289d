"""What was seen of chains of calls: kept in the database, drawn as trees, explained, replayed."""
