"""The ENGINE of Django's own database: Django's PostgreSQL backend, with connections that can be given a deadline."""
