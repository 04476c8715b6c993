"""What the Hub of the tests keeps: repositories, their commits, and the errors of looking for what is not there."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


# as in the `.gitattributes` of a fresh repository; everything else comes inline
LARGE_FILES = (".safetensors", ".parquet", ".arrow", ".gz", ".bin", ".pt", ".pkl")
CREATED_AT = "2024-01-01T00:00:00.000Z"


class StoredFile(NamedTuple):
    """A file of a commit: its bytes, and whether git holds only a pointer to them."""

    data: bytes
    is_large: bool

    @property
    def blob_id(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    @property
    def etag(self) -> str:
        return hashlib.sha256(self.data).hexdigest() if self.is_large else self.blob_id


class Commit(NamedTuple):
    """A state of a repository, and the commit before it."""

    sha: str
    title: str
    message: str
    author: str
    files: dict[str, StoredFile]
    parent: "Commit | None"


@dataclass
class Repository:
    """A repository. `access` is what its owner has chosen: `"public"`, `"private"`, or `"gated"`: ask for access."""

    kind: str
    id: str
    access: str = "public"
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, Commit] = field(default_factory=dict)
    tags: dict[str, Commit] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return self.id.split("/")[0]

    def at(self, revision: str) -> Commit:
        """The commit that a branch, a tag or a full commit id names."""
        named = self.branches.get(revision) or self.tags.get(revision) or self.commits.get(revision)
        if named is None:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return named

    def commit(self, branch: str, files: dict[str, StoredFile], title: str, message: str, author: str) -> Commit:
        parent = self.branches.get(branch)
        sha = hashlib.sha1(f"{self.kind}/{self.id}/{branch}/{len(self.commits)}".encode()).hexdigest()
        commit = Commit(sha, title, message, author, files, parent)
        self.commits[sha] = self.branches[branch] = commit
        return commit


class HubError(Exception):
    """An answer other than success; `code` selects the exception that the client raises."""

    def __init__(self, status: int, message: str, code: str | None = None, **headers: str):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message, **headers} | ({"X-Error-Code": code} if code else {})


def describe_paths(files: dict[str, StoredFile]) -> list[dict]:
    """Files and their folders, as lists of the Hub have them."""
    entries: dict[str, dict] = {}
    for path, file in sorted(files.items()):
        for folder in list(Path(path).parents)[-2::-1]:  # from the outermost, without "."
            entries[str(folder)] = {"type": "directory", "path": str(folder), "size": 0, "oid": "0" * 40}
        entries[path] = {"type": "file", "path": path, "size": len(file.data), "oid": file.blob_id}
        if file.is_large:
            entries[path]["lfs"] = {"oid": file.etag, "size": len(file.data), "pointerSize": 134}
    return list(entries.values())
