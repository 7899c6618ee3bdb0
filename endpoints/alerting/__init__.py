"""Alerts: conditions that Celery checks every minute, and the webhooks that are told.

evaluation   what each alert's value is, and whether it fires
messages     what is sent when that changes: stored first, then delivered, again if that fails
webhooks     one signed POST to an address that may be asked for
"""
