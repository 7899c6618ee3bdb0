"""The log explorer: searches, histograms, and which fields there are."""
