"""Two people edit one row of the admin: the second one to save is told, and no change of either is lost.

The page of a row carries a digest of what it shows. A save compares it with the stored row, which stays locked until
that save is committed, so of two saves at the same moment the second one sees the first. The page then comes back with
everything typed, says who has changed the row since it was opened, and replaces that change if it is saved once more. A
form without the digest, for example from a script, is not compared.

If a row has inline rows, the formset takes part: saving stores all of them anew, so those on the page are found by
their names.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.forms.models import BaseInlineFormSet, model_to_dict
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

OPENED_AS: Final = "opened_as"  # name of the hidden field, and of the attribute of the edited row
MOST_ROWS: Final = 1000  # DATA_UPLOAD_MAX_NUMBER_FIELDS lets no form have more


class ConflictForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """A form that is not valid if the stored row has changed since the form was opened."""

    inline_rows: Sequence[str] = ()  # names of the relations to the rows edited on the same page

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        opened_as = self.data.get(OPENED_AS)
        if opened_as and self.instance.pk and not self.instance._state.adding:
            # Until the end of the admin's transaction, which includes the save.
            stored = type(self.instance)._default_manager.select_for_update().filter(pk=self.instance.pk).first()
            if stored is not None:
                digest = digest_of(stored, self.inline_rows)
                setattr(self.instance, OPENED_AS, digest)
                if digest != opened_as:
                    self.add_error(None, _explained(stored))
        return cleaned


class ConflictAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Puts a digest of the shown row into its page; the form is a ConflictForm."""

    change_form_before_template = "endpoints/opened_as.html"

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            # Before the page reads the inline rows: a change in between is then a conflict and not overlooked.
            setattr(found, OPENED_AS, digest_of(found, getattr(self.form, "inline_rows", ())))
        return found


class RowsByName(BaseInlineFormSet):  # type: ignore[type-arg]  # not subscriptable at run time
    """Finds inline rows by their names if another save has stored them anew since the page was opened."""

    def __init__(self, data: Any = None, files: Any = None, instance: Any = None, **kwargs: Any) -> None:
        if data is not None and instance is not None and instance.pk:
            prefix = kwargs.get("prefix") or self.get_default_prefix()
            rows = self.fk.model._default_manager.filter(**{self.fk.name: instance})
            keys = {str(name): str(key) for name, key in rows.values_list("name", "pk")}
            data = _with_stored_keys(data, prefix, keys)
        super().__init__(data, files, instance, **kwargs)


def digest_of(row: Model, inline_rows: Sequence[str] = ()) -> str:
    """Return a digest of everything about the row that can be edited, including its inline rows."""
    related = [
        sorted(json.dumps(_values(one, without=one._meta.pk.name), default=str) for one in getattr(row, name).all())
        for name in inline_rows
    ]
    text = json.dumps([_values(row), getattr(row, "version", None), related], default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _values(row: Model, *, without: str = "") -> list[tuple[str, Any]]:
    values = model_to_dict(row)
    return [
        # Many-to-many: the rows have no order of their own.
        (name, sorted(str(one.pk) for one in value) if _is_rows(value) else value)
        for name, value in sorted(values.items())
        if name != without
    ]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Model)


def _explained(stored: Model) -> SafeString:
    options = stored._meta
    who, when = _last_change(stored)
    history = reverse(f"admin:{options.app_label}_{options.model_name}_history", args=[stored.pk])
    return format_html(
        'Not saved: {} since you opened this page. <a class="underline" href="{}" target="_blank">See what has '
        "changed</a>. Your input is still here; if you save again, it replaces what is stored now.",
        f"{who} has changed this{when}",
        history,
    )


def _last_change(stored: Model) -> tuple[str, str]:
    """Return who last changed the row and when, as far as its history says."""
    person, moment = None, None
    if hasattr(stored, "history"):
        record = stored.history.order_by("-history_date", "-history_id").first()
        if record is not None:
            person, moment = record.history_user, record.history_date
    else:
        entries = LogEntry.objects.filter(
            content_type=ContentType.objects.get_for_model(stored), object_id=str(stored.pk)
        )
        entry = entries.select_related("user").order_by("-action_time").first()
        if entry is not None:
            person, moment = entry.user, entry.action_time
    when = f" at {timezone.localtime(moment):%Y-%m-%d %H:%M:%S} UTC" if moment else ""
    return str(person) if person is not None else "somebody, or a command,", when


def _with_stored_keys(data: Any, prefix: str, keys: dict[str, str]) -> Any:
    """Return the formset's data with the stored rows' keys; unchanged if every key still exists."""
    try:
        total = min(int(data.get(f"{prefix}-TOTAL_FORMS", "0")), MOST_ROWS)
    except ValueError:
        return data
    sent = [data.get(f"{prefix}-{number}-id", "") for number in range(total)]
    if all(key in keys.values() for key in sent if key):
        return data
    names = [data.get(f"{prefix}-{number}-name", "") for number in range(total)]
    counted = Counter(names)
    # Rows with a key come first (Django's formsets); the form itself refuses a name that comes twice.
    stored = [number for number, name in enumerate(names) if name in keys and counted[name] == 1]
    order = stored + [number for number in range(total) if number not in set(stored)]
    changed = data.copy()
    for number in range(total):
        for name in [name for name in changed if name.startswith(f"{prefix}-{number}-")]:
            del changed[name]
    for place, number in enumerate(order):
        start = f"{prefix}-{number}-"
        for name in [name for name in data if name.startswith(start)]:
            changed.setlist(f"{prefix}-{place}-{name.removeprefix(start)}", data.getlist(name))
        changed[f"{prefix}-{place}-id"] = keys[names[number]] if number in stored else ""
    changed[f"{prefix}-INITIAL_FORMS"] = str(len(stored))
    return changed
