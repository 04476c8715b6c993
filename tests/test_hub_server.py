"""The Hub of the tests behaves as the client of the real one expects."""

import http.client
import threading

import pytest
from hub_server import HubServer, let_clients_through
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)


# the client sends large files in a way that its own HTTP library has given up
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

MODEL = "ada/model-v1.5"
WEIGHTS = b"weights" * 1000


@pytest.fixture
def hub():
    with HubServer() as hub:
        yield hub


@pytest.fixture
def login(hub, monkeypatch):
    """Clients of this Hub alone: `login("ada")` for a user, `login(None)` for somebody unknown."""
    let_clients_through(monkeypatch)
    tokens = {name: hub.add_user(name) for name in ("ada", "eve")}
    return lambda name: HfApi(hub.endpoint, token=tokens[name] if name in tokens else name or False)


@pytest.fixture
def ada(login, tmp_path):
    """The owner of a repository that has a small and a large file."""
    api, folder = login("ada"), tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "model.safetensors").write_bytes(WEIGHTS)
    api.create_repo(MODEL)
    api.upload_folder(repo_id=MODEL, folder_path=folder)
    return api


def download(api: HfApi, path: str, folder, **kwargs) -> bytes:
    with open(api.hf_hub_download(MODEL, path, cache_dir=folder, **kwargs), "rb") as file:
        return file.read()


def test_files_come_back_as_they_were_sent(ada, login, hub, tmp_path):
    nobody = login(None)
    assert download(nobody, "config.json", tmp_path / "cache") == b"{}"
    assert download(nobody, "sub/model.safetensors", tmp_path / "cache") == WEIGHTS
    assert hub.repository(MODEL).at("main").files["sub/model.safetensors"].is_large
    assert nobody.list_repo_files(MODEL) == [".gitattributes", "config.json", "sub/model.safetensors"]
    names = {entry.path: type(entry).__name__ for entry in nobody.list_repo_tree(MODEL)}
    assert names == {".gitattributes": "RepoFile", "config.json": "RepoFile", "sub": "RepoFolder"}
    (info,) = nobody.get_paths_info(MODEL, ["sub/model.safetensors"])
    assert (info.size, info.lfs.size) == (len(WEIGHTS), len(WEIGHTS))
    folder = nobody.snapshot_download(MODEL, local_dir=tmp_path / "copy")
    assert (tmp_path / "copy" / "sub" / "model.safetensors").read_bytes() == WEIGHTS, folder


def test_what_is_known_is_not_uploaded_again(ada, hub):
    before = hub.requests.count(("PUT", f"/large-files/{next(iter(hub.large_files))}"))
    ada.upload_file(path_or_fileobj=WEIGHTS, path_in_repo="again.safetensors", repo_id=MODEL)
    uploads = [path for method, path in hub.requests if method == "PUT"]
    assert (before, len(uploads)) == (1, 1)
    assert hub.files(MODEL)["again.safetensors"] == WEIGHTS


def test_part_of_a_file_can_be_read(ada, hub):
    connection = http.client.HTTPConnection("127.0.0.1", hub.server.server_port)
    path = f"/{MODEL}/resolve/main/sub/model.safetensors"
    for wanted, part in (("500-549", WEIGHTS[500:550]), ("6990-", WEIGHTS[6990:])):
        connection.request("GET", path, headers={"Range": f"bytes={wanted}"})
        response = connection.getresponse()
        assert (response.status, response.read()) == (206, part)
    connection.close()


def test_branches_tags_and_commits_name_states(ada, tmp_path):
    first = ada.repo_info(MODEL).sha
    ada.create_tag(MODEL, tag="v1")
    ada.create_branch(MODEL, branch="more/work")
    new = [CommitOperationAdd("config.json", b"[]"), CommitOperationDelete("sub/", is_folder=True)]
    ada.create_commit(MODEL, new, commit_message="Empty it", revision="more/work")
    states = {revision: download(ada, "config.json", tmp_path, revision=revision) for revision in ("v1", "more/work")}
    assert states == {"v1": b"{}", "more/work": b"[]"}
    assert download(ada, "config.json", tmp_path, revision=first) == b"{}"
    titles = [commit.title for commit in ada.list_repo_commits(MODEL, revision="more/work")]
    assert titles == ["Empty it", "Upload folder using huggingface_hub", "initial commit"]
    assert ada.list_repo_files(MODEL, revision="more/work") == [".gitattributes", "config.json"]
    refs = ada.list_repo_refs(MODEL)
    assert [[ref.name for ref in kind] for kind in (refs.branches, refs.tags)] == [["main", "more/work"], ["v1"]]
    ada.delete_tag(MODEL, tag="v1")
    ada.delete_branch(MODEL, branch="more/work")
    assert [ref.name for ref in ada.list_repo_refs(MODEL).branches] == ["main"]
    with pytest.raises(RevisionNotFoundError):
        ada.repo_info(MODEL, revision="v1")


def test_a_commit_on_an_old_state_is_refused(ada):
    parent = ada.repo_info(MODEL).sha
    ada.upload_file(path_or_fileobj=b"1", path_in_repo="a.txt", repo_id=MODEL, parent_commit=parent)
    with pytest.raises(HfHubHTTPError) as caught:
        ada.upload_file(path_or_fileobj=b"2", path_in_repo="a.txt", repo_id=MODEL, parent_commit=parent)
    assert caught.value.response.status_code == 412


def test_what_is_missing_has_its_own_error(ada, login, tmp_path):
    with pytest.raises(EntryNotFoundError):
        download(ada, "nothing.json", tmp_path)
    with pytest.raises(RevisionNotFoundError):
        download(ada, "config.json", tmp_path, revision="v9")
    for client, status in ((login("eve"), 404), (login(None), 401)):
        with pytest.raises(RepositoryNotFoundError) as caught:
            client.repo_info("ada/nothing")
        assert caught.value.response.status_code == status
    assert not ada.repo_exists("ada/nothing")
    assert ada.file_exists(MODEL, "config.json") and not ada.file_exists(MODEL, "nothing.json")


def test_private_repositories_are_there_for_their_owner_alone(ada, login, tmp_path):
    ada.update_repo_settings(MODEL, private=True)
    assert download(ada, "config.json", tmp_path / "ada") == b"{}"
    assert ada.repo_info(MODEL).private
    for name in ("eve", None):
        with pytest.raises(RepositoryNotFoundError):
            download(login(name), "config.json", tmp_path / "other")
        with pytest.raises(RepositoryNotFoundError):
            login(name).list_repo_files(MODEL)
    with pytest.raises(HfHubHTTPError, match="Invalid credentials") as caught:
        login("hf_wrong").repo_info(MODEL)
    assert caught.value.response.status_code == 401
    assert not isinstance(caught.value, RepositoryNotFoundError)


def test_gated_repositories_are_seen_but_not_read(ada, login, tmp_path):
    ada.update_repo_settings(MODEL, gated="manual")
    assert download(ada, "config.json", tmp_path / "ada") == b"{}"
    for name, status in (("eve", 403), (None, 401)):
        assert login(name).repo_info(MODEL).gated == "manual"
        with pytest.raises(GatedRepoError) as caught:
            download(login(name), "config.json", tmp_path / "other")
        assert caught.value.response.status_code == status
        with pytest.raises(GatedRepoError):
            login(name).auth_check(MODEL)


def test_only_the_owner_writes(ada, login, hub):
    assert login("eve").whoami()["name"] == "eve"
    for name, status in (("eve", 403), (None, 401)):
        client = login(name)
        for action in (
            lambda client=client: client.upload_file(path_or_fileobj=b"", path_in_repo="a.txt", repo_id=MODEL),
            lambda client=client: client.create_tag(MODEL, tag="mine"),
            lambda client=client: client.create_repo("ada/mine"),
            lambda client=client: client.delete_repo(MODEL),
        ):
            with pytest.raises(HfHubHTTPError) as caught:
                action()
            assert caught.value.response.status_code == status
    assert set(hub.files(MODEL)) == {"config.json", "sub/model.safetensors"}
    ada.delete_repo(MODEL)
    assert not ada.repo_exists(MODEL)


def test_a_repository_is_made_once(ada):
    assert ada.create_repo(MODEL, exist_ok=True).repo_id == MODEL
    with pytest.raises(HfHubHTTPError) as caught:
        ada.create_repo(MODEL)
    assert caught.value.response.status_code == 409
    # a data set may have the same name
    ada.create_repo(MODEL, repo_type="dataset")
    assert ada.list_repo_files(MODEL, repo_type="dataset") == [".gitattributes"]


def test_metadata_of_cards_is_read(ada):
    ada.upload_file(path_or_fileobj=b"---\nlicense: mit\n---\n", path_in_repo="README.md", repo_id=MODEL)
    with pytest.raises(ValueError, match="Invalid metadata"):
        ada.upload_file(path_or_fileobj=b"---\na: [\n---\n", path_in_repo="README.md", repo_id=MODEL)


def test_nothing_runs_on_after_the_end():
    before = set(threading.enumerate())
    with HubServer() as hub:
        # an open connection, as clients keep them, must not hold up the end
        connection = http.client.HTTPConnection("127.0.0.1", hub.server.server_port)
        connection.request("GET", "/api/models/ada/nothing")
        assert connection.getresponse().status == 401
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", hub.server.server_port).request("GET", "/")
