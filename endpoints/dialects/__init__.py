"""SQL dialects of consumers, translated to PostgreSQL's."""
