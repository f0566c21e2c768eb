//! What an install or an update would change, and whether it asks.
