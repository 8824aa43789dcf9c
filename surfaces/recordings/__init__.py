"""Calls that were recorded elsewhere (HAR, Postman, a proxy) as mocks of a suite."""

from __future__ import annotations

from surfaces.recordings.calls import RecordedCall, Recording
from surfaces.recordings.har import calls_of_har
from surfaces.recordings.mock_files import MockFiles, mock_files
from surfaces.recordings.postman import calls_of_postman
from surfaces.recordings.secrets import without_secrets

__all__ = [
    "MockFiles",
    "RecordedCall",
    "Recording",
    "calls_of_har",
    "calls_of_postman",
    "mock_files",
    "without_secrets",
]
