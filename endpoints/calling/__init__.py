"""A call from its arguments to its bytes: prepared, cached, run and encoded; warming and loading too."""
