"""The files that pages load, under names that contain a hash of their contents.

`manage.py collectstatic` writes them to STATIC_ROOT, each also compressed, with a list of the names. whitenoise sends
the compressed copy and lets browsers keep a hashed name for ten years (RFC 8246, `immutable`).
"""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # it ships no types
    """Names a file by its hash if it was collected, and else as it is: the demo and the tests collect nothing."""

    # Our modules import each other by hashed names too; otherwise a browser could mix those of two versions. In the
    # minified files of others Django's expressions find imports that are none (django-ace's mode-mask.js).
    _, _module_patterns = CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns
    patterns = (*CompressedManifestStaticFilesStorage.patterns, ("endpoints/*.js", _module_patterns))

    def stored_name(self, name: str) -> str:
        # Not Django's, which raises for every file of a version that is not collected yet: each page would fail.
        collected: str = self.hashed_files.get(self.hash_key(self.clean_name(name)), name)
        return collected
