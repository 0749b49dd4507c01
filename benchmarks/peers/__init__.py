"""Other ways to do the same work, measured in the same run as Oka."""
