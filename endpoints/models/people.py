"""What belongs to a person of the admin, besides Django's user."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models


class Identity(models.Model):
    """Whom a provider of OpenID Connect means by a subject, as a person of the admin.

    Issuer and subject together are the only claims that never change hands (OpenID Connect Core, section 5.7); an
    e-mail address and a name may. Made by `access.single_sign_on` at the first login.
    """

    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)  # no provider may send a longer one (section 2)
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="identity")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_one_person")]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class SavedSearch(models.Model):
    """A search of the log explorer that its owner can open again; nobody else sees it.

    `query` is the query string of the page's address, without the question mark. Save through
    `exploring.saved_searches`.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_searches")
    name = models.CharField(max_length=100)
    query = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        default_permissions = ()  # who may explore may save: nothing of it is in the admin's lists
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_search_one_per_owner_and_name")]
        verbose_name_plural = "saved searches"

    def __str__(self) -> str:
        return self.name
