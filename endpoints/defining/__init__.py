"""What an endpoint is: drafts, saving, versions, files and schedules."""
