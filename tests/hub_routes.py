"""What the Hub of the tests answers to each request, apart from how requests come in."""

import base64
import hashlib
import json
import re
import secrets
import threading
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

import yaml
from hub_repositories import CREATED_AT, LARGE_FILES, Commit, HubError, Repository, StoredFile, describe_paths


class Request(NamedTuple):
    """
    What a route gets.

    Attributes:
        user (`str`, *optional*): Who asks; `None` for nobody who is known.
        has_unknown_token (`bool`): Whether a token came that belongs to nobody.
        query (`dict[str, list[str]]`): What stands behind "?".
        body (`bytes`): Content.
        byte_range (`str`): Part of a file that is wanted, such as `"bytes=0-99"`; empty for all of it.
    """

    user: str | None
    has_unknown_token: bool
    query: dict[str, list[str]]
    body: bytes
    byte_range: str = ""


class Answer(NamedTuple):
    """What a route returns where it is more than JSON."""

    data: bytes
    headers: dict[str, str]
    status: int = 200


KIND = "(models|datasets|spaces)"
NAME = "([^/]+/[^/]+)"


class Hub:
    """
    A Hub without its network: users, repositories, and what is answered to whom.

    Attributes:
        endpoint (`str`): Address that answers point to.
        repositories (`dict[tuple[str, str], Repository]`): By kind (`"models"`, `"datasets"`) and id.
        requests (`list[tuple[str, str]]`): Method and path of all requests, in order.
    """

    def __init__(self, endpoint: str):
        self.endpoint = endpoint
        self.users: dict[str, str] = {}  # by token
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.large_files: dict[str, bytes] = {}  # by SHA-256
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        self.routes: list[tuple[str, re.Pattern, Callable]] = [
            ("GET", re.compile("/api/whoami-v2"), self.whoami),
            ("POST", re.compile("/api/validate-yaml"), self.validate_card),
            ("POST", re.compile("/api/repos/create"), self.create),
            ("DELETE", re.compile("/api/repos/delete"), self.delete),
            ("GET", re.compile(f"/api/{KIND}/{NAME}"), self.info),
            ("GET", re.compile(f"/api/{KIND}/{NAME}/revision/([^/]+)"), self.info),
            ("GET", re.compile(f"/api/{KIND}/{NAME}/auth-check"), self.check_access),
            ("PUT", re.compile(f"/api/{KIND}/{NAME}/settings"), self.change_settings),
            ("GET", re.compile(f"/api/{KIND}/{NAME}/refs"), self.refs),
            ("GET", re.compile(f"/api/{KIND}/{NAME}/commits/([^/]+)"), self.history),
            ("GET", re.compile(f"/api/{KIND}/{NAME}/tree/([^/]+)(?:/([^/]+))?"), self.tree),
            ("POST", re.compile(f"/api/{KIND}/{NAME}/paths-info/([^/]+)"), self.paths_info),
            ("POST", re.compile(f"/api/{KIND}/{NAME}/branch/([^/]+)"), self.create_branch),
            ("DELETE", re.compile(f"/api/{KIND}/{NAME}/(branch|tag)/([^/]+)"), self.delete_reference),
            ("POST", re.compile(f"/api/{KIND}/{NAME}/tag/([^/]+)"), self.create_tag),
            ("POST", re.compile(f"/api/{KIND}/{NAME}/preupload/([^/]+)"), self.choose_upload_modes),
            ("POST", re.compile(rf"/(?:(datasets|spaces)/)?{NAME}\.git/info/lfs/objects/batch"), self.plan_uploads),
            ("PUT", re.compile("/large-files/([0-9a-f]{64})"), self.store_large_file),
            ("POST", re.compile(f"/api/{KIND}/{NAME}/commit/([^/]+)"), self.commit),
            ("GET", re.compile(f"/(?:(datasets|spaces)/)?{NAME}/resolve/([^/]+)/(.+)"), self.download),
        ]

    def add_user(self, name: str) -> str:
        """Register a user; returns the token that stands for the user."""
        token = f"hf_{secrets.token_hex(16)}"
        self.users[token] = name
        return token

    def repository(self, repo_id: str, kind: str = "models") -> Repository:
        return self.repositories[kind, repo_id]

    def files(self, repo_id: str, revision: str = "main", kind: str = "models") -> dict[str, bytes]:
        """Contents of a revision by path, `.gitattributes` left out."""
        files = self.repository(repo_id, kind).at(revision).files
        return {path: file.data for path, file in files.items() if path != ".gitattributes"}

    def answer(self, method: str, path: str, request: Request) -> Answer:
        """What is answered to a request, whoever asks; what goes wrong is an answer, too."""
        with self.lock:
            self.requests.append((method, unquote(path)))
            try:
                result = self.run_route(method, path, request)
            except HubError as error:
                return Answer(json.dumps({"error": str(error)}).encode(), error.headers, error.status)
        return result if isinstance(result, Answer) else Answer(json.dumps(result).encode(), {})

    def run_route(self, method: str, path: str, request: Request) -> Answer | dict | list:
        if request.has_unknown_token:
            raise HubError(401, "Invalid credentials in Authorization header")
        for verb, pattern, route in self.routes:
            match = pattern.fullmatch(path)
            if match and verb == ("GET" if method == "HEAD" else method):
                # parts are quoted one by one: a branch may have a "/" in its name
                return route(request, *(unquote(group) if group else group for group in match.groups()))
        raise HubError(404, f"Not here: {method} {path}")

    def find(self, request: Request, kind: str | None, repo_id: str, access: str = "read") -> Repository:
        """
        The repository, if the user may do this to it: `"list"` its files, `"read"` them, or `"write"`.

        To those who may not know that it exists it is missing, and to those who have not said who they are, whatever
        is missing is a matter of the token.
        """
        repository = self.repositories.get((kind or "models", repo_id))
        is_owner = repository is not None and request.user == repository.owner
        if repository is None or (repository.access == "private" and not is_owner):
            # the real Hub sends no code with 401; the client knows the case by the address, but only under https
            status, message = (404, "Repository not found") if request.user else (401, "Invalid username or password.")
            raise HubError(status, message, "RepoNotFound")
        if access != "list" and repository.access == "gated" and not is_owner:
            status = 403 if request.user else 401
            raise HubError(status, f"Access to {kind or 'models'} {repo_id} is restricted.", "GatedRepo")
        if access == "write" and not is_owner:
            self.require_user(request)
            raise HubError(403, "Authorization error.")
        return repository

    def require_user(self, request: Request) -> str:
        if request.user is None:
            raise HubError(401, "Invalid username or password.")
        return request.user

    def url(self, repository: Repository) -> str:
        return f"{self.endpoint}/{'' if repository.kind == 'models' else repository.kind + '/'}{repository.id}"

    def whoami(self, request: Request) -> dict:
        name = self.require_user(request)
        return {"type": "user", "name": name, "orgs": [], "auth": {"accessToken": {"role": "write"}}}

    def validate_card(self, request: Request) -> dict | Answer:
        card = re.match(r"---\r?\n(.*?)\r?\n---", json.loads(request.body)["content"], re.DOTALL)
        try:
            metadata = yaml.safe_load(card[1]) if card else {}
        except yaml.YAMLError as error:
            return Answer(json.dumps({"errors": [{"message": str(error)}], "warnings": []}).encode(), {}, 400)
        warnings = [] if metadata else [{"message": "empty or missing yaml metadata in repo card"}]
        return {"errors": [], "warnings": warnings}

    def create(self, request: Request) -> dict | Answer:
        user, wanted = self.require_user(request), json.loads(request.body)
        owner = wanted.get("organization") or user
        if owner != user:
            raise HubError(403, f'You don\'t have the rights to create a model under the namespace "{owner}".')
        repository = Repository(wanted.get("type", "model") + "s", f"{owner}/{wanted['name']}")
        known = self.repositories.setdefault((repository.kind, repository.id), repository)
        names = {"url": self.url(repository), "name": repository.id, "id": repository.id}
        if known is not repository:
            return Answer(json.dumps({"error": "You already created this repo", **names}).encode(), {}, 409)
        repository.access = wanted.get("visibility", "public")
        attributes = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE_FILES)
        repository.commit(
            "main", {".gitattributes": StoredFile(attributes.encode(), False)}, "initial commit", "", user
        )
        return names

    def delete(self, request: Request) -> dict:
        wanted = json.loads(request.body)
        name = f"{wanted.get('organization') or self.require_user(request)}/{wanted['name']}"
        repository = self.find(request, wanted.get("type", "model") + "s", name, "write")
        del self.repositories[repository.kind, repository.id]
        return {}

    def info(self, request: Request, kind: str, repo_id: str, revision: str = "main") -> dict:
        repository = self.find(request, kind, repo_id, "list")
        commit = repository.at(revision)
        return {
            "id": repo_id,
            "author": repository.owner,
            "sha": commit.sha,
            "private": repository.access == "private",
            "gated": "manual" if repository.access == "gated" else False,
            "disabled": False,
            "tags": [],
            "lastModified": CREATED_AT,
            "siblings": [{"rfilename": path} for path in sorted(commit.files)],
        }

    def check_access(self, request: Request, kind: str, repo_id: str) -> dict:
        self.find(request, kind, repo_id)
        return {}

    def change_settings(self, request: Request, kind: str, repo_id: str) -> dict:
        repository, wanted = self.find(request, kind, repo_id, "write"), json.loads(request.body)
        repository.access = "gated" if wanted.get("gated") else wanted.get("visibility", "public")
        return {}

    def refs(self, request: Request, kind: str, repo_id: str) -> dict:
        repository = self.find(request, kind, repo_id, "list")

        def named(prefix: str, commits: dict[str, Commit]) -> list[dict]:
            return [{"name": n, "ref": f"refs/{prefix}/{n}", "targetCommit": c.sha} for n, c in commits.items()]

        branches, tags = named("heads", repository.branches), named("tags", repository.tags)
        return {"branches": branches, "tags": tags, "converts": [], "pullRequests": []}

    def history(self, request: Request, kind: str, repo_id: str, revision: str) -> list[dict]:
        commit: Commit | None = self.find(request, kind, repo_id, "list").at(revision)
        commits = []
        while commit is not None:
            authors = [{"user": commit.author}]
            names = {"title": commit.title, "message": commit.message, "authors": authors, "date": CREATED_AT}
            commits.append({"id": commit.sha, **names})
            commit = commit.parent
        return commits

    def tree(self, request: Request, kind: str, repo_id: str, revision: str, folder: str | None = None) -> list[dict]:
        files = self.find(request, kind, repo_id, "list").at(revision).files
        is_recursive = request.query.get("recursive", ["false"])[0].lower() == "true"
        prefix = f"{folder.rstrip('/')}/" if folder else ""
        entries = [entry for entry in describe_paths(files) if entry["path"].startswith(prefix)]
        if prefix and not entries:
            raise HubError(404, f"{folder} does not exist on {revision!r}", "EntryNotFound")
        return [entry for entry in entries if is_recursive or "/" not in entry["path"].removeprefix(prefix)]

    def paths_info(self, request: Request, kind: str, repo_id: str, revision: str) -> list[dict]:
        files = self.find(request, kind, repo_id, "list").at(revision).files
        wanted = parse_qs(request.body.decode())["paths"]
        return [entry for entry in describe_paths(files) if entry["path"] in wanted]

    def create_branch(self, request: Request, kind: str, repo_id: str, name: str) -> dict:
        repository = self.find(request, kind, repo_id, "write")
        if name in repository.branches:
            raise HubError(409, f"Reference already exists: {name}")
        repository.branches[name] = repository.at(json.loads(request.body).get("startingPoint", "main"))
        return {}

    def create_tag(self, request: Request, kind: str, repo_id: str, revision: str) -> dict:
        repository, name = self.find(request, kind, repo_id, "write"), json.loads(request.body)["tag"]
        if name in repository.tags:
            raise HubError(409, f"Tag reference exists already: {name}")
        repository.tags[name] = repository.at(revision)
        return {}

    def delete_reference(self, request: Request, kind: str, repo_id: str, sort: str, name: str) -> dict:
        repository = self.find(request, kind, repo_id, "write")
        references = repository.branches if sort == "branch" else repository.tags
        if references.pop(name, None) is None:
            raise HubError(404, f"No such {sort}: {name}", "RevisionNotFound")
        return {}

    def choose_upload_modes(self, request: Request, kind: str, repo_id: str, revision: str) -> dict:
        commit = self.find(request, kind, repo_id, "write").at(revision)
        files = []
        for file in json.loads(request.body)["files"]:
            path = file["path"]
            mode = "lfs" if path.endswith(LARGE_FILES) else "regular"
            # the client leaves out what has not changed
            oid = commit.files[path].etag if path in commit.files else None
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return {"files": files}

    def plan_uploads(self, request: Request, kind: str | None, repo_id: str) -> dict:
        self.find(request, kind, repo_id, "write")
        objects = []
        for wanted in json.loads(request.body)["objects"]:
            plan = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.large_files:
                plan["actions"] = {"upload": {"href": f"{self.endpoint}/large-files/{wanted['oid']}", "header": {}}}
            objects.append(plan)
        return {"transfer": "basic", "objects": objects}

    def store_large_file(self, request: Request, oid: str) -> dict:
        if hashlib.sha256(request.body).hexdigest() != oid:
            raise HubError(400, f"These {len(request.body)} bytes do not have the SHA-256 {oid}.")
        self.large_files[oid] = request.body
        return {}

    def commit(self, request: Request, kind: str, repo_id: str, revision: str) -> dict:
        repository = self.find(request, kind, repo_id, "write")
        if "create_pr" in request.query:
            raise HubError(501, "This Hub has no pull requests.")
        if revision not in repository.branches:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        parent = repository.branches[revision]
        files = dict(parent.files)
        title = message = ""
        for key, value in ((line["key"], line["value"]) for line in map(json.loads, request.body.splitlines())):
            if key == "header":
                title, message = value["summary"], value["description"]
                if value.get("parentCommit", parent.sha) != parent.sha:
                    raise HubError(412, "A commit has happened since. Please refresh and try again.")
            elif key == "file":
                files[value["path"]] = StoredFile(base64.b64decode(value["content"]), False)
            elif key == "lfsFile":
                files[value["path"]] = StoredFile(self.large_files[value["oid"]], True)
            elif key == "deletedFile":
                if files.pop(value["path"], None) is None:
                    raise HubError(404, f"No such file: {value['path']}", "EntryNotFound")
            elif key == "deletedFolder":
                folder = value["path"].rstrip("/") + "/"
                files = {path: file for path, file in files.items() if not path.startswith(folder)}
            else:
                raise HubError(400, f"Unknown operation: {key}")
        commit = repository.commit(revision, files, title, message, self.require_user(request))
        return {"success": True, "commitOid": commit.sha, "commitUrl": f"{self.url(repository)}/commit/{commit.sha}"}

    def download(self, request: Request, kind: str | None, repo_id: str, revision: str, path: str) -> Answer:
        commit = self.find(request, kind, repo_id).at(revision)
        if path not in commit.files:
            # the client remembers with the commit that the file is missing
            raise HubError(404, "Entry not found", "EntryNotFound", **{"X-Repo-Commit": commit.sha})
        file = commit.files[path]
        headers = {"ETag": f'"{file.etag}"', "X-Repo-Commit": commit.sha, "Content-Type": "application/octet-stream"}
        headers |= {"X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": str(len(file.data)), "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.byte_range)
        if wanted is None:
            return Answer(file.data, headers)
        start, end = int(wanted[1]), min(int(wanted[2] or len(file.data)), len(file.data) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(file.data)}"
        return Answer(file.data[start : end + 1], headers, 206)
