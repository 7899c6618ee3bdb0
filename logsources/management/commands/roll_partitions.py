"""Create daily partitions ahead, move rows out of the default partitions, drop expired partitions."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser

from logsources import services
from logsources.management.own_command import OwnCommand
from logsources.partitions import DAYS_AHEAD
from logsources.services import PartitionAction, PartitionChange, PartitionsNotRolled


def _days(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a number of days from 0")
    return int(text)


def _sentence(change: PartitionChange) -> str:
    match change.action:
        case PartitionAction.CREATED if change.rows:
            return f"{change.partition_name}: created, {change.rows} rows moved from the default partition"
        case PartitionAction.EMPTIED:
            return f"{change.partition_name}: {change.rows} expired rows deleted"
        case _:
            return f"{change.partition_name}: {change.action}"


class Command(OwnCommand):
    help = (
        "Give every log table its daily partitions (UTC): create those of the coming days, move rows from the "
        "default partition to the partitions of their days, drop partitions older than the source's retention, and "
        "build missing covering indexes. The scheduler does this every hour; run it by hand after loading old rows."
    )
    examples = ("python manage.py roll_partitions --days-ahead 14",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--days-ahead",
            type=_days,
            default=DAYS_AHEAD,
            metavar="DAYS",
            help=f"how many days after today get a partition now (default: {DAYS_AHEAD})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            changes = services.roll_partitions(days_ahead=options["days_ahead"])
        except PartitionsNotRolled as error:
            self._print(error.changes)
            raise CommandError(str(error)) from error
        self._print(changes)
        if not changes:
            self.stdout.write("Nothing to do.")

    def _print(self, changes: list[PartitionChange]) -> None:
        for change in changes:
            self.stdout.write(_sentence(change))
