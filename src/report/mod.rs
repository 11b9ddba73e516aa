//! What a person or a script gets to see: progress, tables, JSON.
