"""The audit log of calls: noted in memory by each call, written to Django's database in batches, read by pages.

call_queue       what waits in this process; a call only appends to it
call_log         the thread that writes it, and how much of it
call_partitions  one partition a day, made ahead and dropped
reports          what pages, metrics and alerts read
"""
