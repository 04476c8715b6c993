"""
The demo in a real browser: what a visitor does, and that nothing leaves the machine.

Needs Chromium and its driver (`make test-space` gets them). With `DOCMT_SCREENSHOTS=folder`, pictures of each state at
laptop and phone width, light and dark, are left there.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest


pytest.importorskip("gradio", reason="needs gradio: make test-space")
pytest.importorskip("selenium", reason="needs selenium: make test-space")

from selenium.webdriver import Chrome, ChromeOptions  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402


REPOSITORY = Path(__file__).resolve().parent.parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
PATIENCE = 300  # seconds
DOCUMENT = "The door is old.\nIt was open, and she smiled.\n\n42\nChoose File - Open. Click OK.\n"
TRICKY = "The <b>door</b> is {{value}} and ${1+1}.\r\n\r\n  It was open.\r\n"
# in the process of the demo: as on the Hub, without the project; connections to other machines are noted, and refused
GUARD = """
import os, socket, sys

sys.modules["modeling_docmt"] = sys.modules["training"] = sys.modules["hub_cards"] = None

def guard(name):
    usual = getattr(socket.socket, name)
    def connect(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "localhost", "::1"):
            with open(os.environ["DOCMT_GUARD_LOG"], "a") as file:
                file.write(f"{address}\\n")
            raise OSError(f"no network in this test: {address}")
        return usual(self, address)
    setattr(socket.socket, name, connect)

for name in ("connect", "connect_ex"):
    guard(name)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and its driver: make test-space"),
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Address of the demo with the checkpoint of the repository, and the file of refused connections."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name not in ("DOCMT_MODELS", "PYTHONPATH")}
    environment |= {
        "PYTHONPATH": str(folder),
        "DOCMT_GUARD_LOG": str(folder / "connections"),
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_TEMP_DIR": str(folder / "gradio"),
        "HF_HOME": str(folder / "hub"),
    }
    address = f"http://127.0.0.1:{port}/"
    with open(folder / "log", "w", encoding="utf-8") as log:
        command = [sys.executable, str(REPOSITORY / "hub_cards" / "space" / "app.py")]
        # elsewhere: nothing may depend on the folder it is started in, or on this package
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(address):
                assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.5)
            yield address, folder / "connections"
        finally:
            process.terminate()
            process.wait(timeout=30)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=30):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def downloads(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(demo, downloads):
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    try:
        yield driver
    finally:
        driver.quit()


class Visitor:
    """What a visitor does on the page, and sees."""

    def __init__(self, browser: Chrome, address: str):
        self.browser = browser
        self.resize(1366)
        browser.get(address)
        self.wait(lambda: self.all("#docmt-start") and self.all("#docmt-beams input[type=number]"))
        # one beam is fastest
        box = self.one("#docmt-beams input[type=number]")
        box.clear()
        box.send_keys("1", Keys.TAB)

    def wait(self, condition):
        return WebDriverWait(self.browser, PATIENCE, poll_frequency=0.2).until(lambda _: condition())

    def all(self, selector: str) -> list:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((found) => found.textContent)"
        return self.browser.execute_script(script, selector)

    def resize(self, width: int, height: int = 900) -> None:
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)

    def write(self, text: str) -> None:
        box = self.one("#docmt-text textarea")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(Keys.DELETE)
        if text:
            box.send_keys(text)
        self.wait(lambda: box.get_property("value") == text)

    def press_translate(self) -> None:
        self.browser.execute_script("document.querySelectorAll('.docmt-summary').forEach((old) => old.remove())")
        self.one("#docmt-start").click()

    def translate(self) -> list[dict[str, str]]:
        """Press the button; what the rows say, by column."""
        self.press_translate()
        self.wait(lambda: self.all(".docmt-summary"))
        script = """
            return [...document.querySelectorAll('tr[data-sentence]')].map((row) => Object.fromEntries(
                [...row.querySelectorAll('td')].map((cell) => [cell.dataset.title, cell.textContent])))
        """
        return self.browser.execute_script(script)

    def choose(self, group: str, value: str) -> None:
        self.one(f"{group} input[value={value}]").click()

    def upload(self, path: Path) -> None:
        self.one("input[type=file]").send_keys(str(path))

    def look_at(self, number: int, key: str | None = None) -> None:
        """Choose the row of a sentence: with the mouse, or with a key on its button."""
        button = self.all("tr[data-sentence] button")[number - 1]
        button.send_keys(key) if key else button.click()
        self.wait(lambda: self.texts(".docmt-attention h3") == [f"What sentence {number} attended to"])

    def alert(self) -> str:
        self.wait(lambda: any(text.strip() for text in self.texts("#docmt-problem [role=alert]")))
        return self.texts("#docmt-problem [role=alert]")[0]


@pytest.fixture
def visitor(browser, demo) -> Visitor:
    return Visitor(browser, demo[0])


def picture(visitor: Visitor, name: str) -> None:
    """Leave a picture of the whole page where one is wanted."""
    if folder := os.environ.get("DOCMT_SCREENSHOTS"):
        height = visitor.browser.execute_script("return document.documentElement.scrollHeight")
        width = visitor.browser.execute_script("return window.innerWidth")
        visitor.resize(width, height)
        time.sleep(0.5)
        Path(folder).mkdir(parents=True, exist_ok=True)
        visitor.browser.save_screenshot(str(Path(folder) / f"{name}.png"))
        visitor.resize(width)


def test_a_pasted_document_is_translated_with_and_without_context(visitor):
    visitor.write(DOCUMENT)
    rows = visitor.translate()
    sources = ["The door is old.", "It was open, and she smiled.", "42", "Choose File - Open.", "Click OK."]
    assert [row["Source (en)"] for row in rows] == sources
    assert all(row["Translation (de)"] for row in rows) and rows[2]["Translation (de)"] == "42"
    assert [row["Status"] for row in rows] == ["translated"] * 2 + ["copied: no words in it"] + ["translated"] * 2
    # something differs, and is marked on both sides
    others = [row for row in rows if row["Without context"] != "the same"]
    assert others and visitor.all("td mark.docmt-with, td mark.docmt-without")
    assert all(row["Without context"] != row["Translation (de)"] for row in others)
    assert len(visitor.all(".docmt-blank")) == 1
    assert f"{len(others)} differ" in visitor.texts(".docmt-summary")[0]


def test_the_row_of_a_sentence_shows_its_heat_map(visitor):
    visitor.write("The door is old. It was open.\nShe smiled.")
    rows = visitor.translate()
    visitor.look_at(2)
    words = visitor.texts(".docmt-map tbody th")
    assert words == [*rows[1]["Translation (de)"].split(), "(end)"]
    # two sentences at a time
    assert visitor.texts(".docmt-map thead tr:first-child th") == ["Sentence 1", "Sentence 2"]
    shares = [int(text.split()[0]) for text in visitor.texts(".docmt-bar span")]
    assert len(shares) == 4 and sum(shares) in range(198, 203)
    heats = visitor.browser.execute_script(
        "return [...document.querySelectorAll('.docmt-map tbody td')]"
        ".map((cell) => getComputedStyle(cell).backgroundColor)"
    )
    assert len(set(heats)) > 3
    assert visitor.one("#docmt-attention").rect["height"] > 200
    top = visitor.browser.execute_script(
        "return document.querySelector('#docmt-attention').getBoundingClientRect().top"
    )
    assert top < 900, "the heat map is out of sight"
    # the keyboard does the same
    visitor.look_at(3, Keys.ENTER)
    assert visitor.one("tr[aria-current] button").text == "3"
    assert visitor.texts(".docmt-pair span") == ["She smiled."]


def test_another_decoding_gives_another_table_and_map(visitor):
    visitor.write("The door is old. It was open.")
    visitor.choose("#docmt-decoding", "sequential")
    assert "Without context" in visitor.translate()[0]
    assert "sequential" in visitor.texts(".docmt-summary")[0]
    visitor.look_at(1)
    assert "(start of the document)" in "".join(visitor.texts(".docmt-bars td"))
    visitor.choose("#docmt-decoding", "sentence")
    assert "Without context" not in visitor.translate()[0]
    assert not visitor.all(".docmt-attention"), "the map of the old translation is still there"
    visitor.look_at(2)
    assert visitor.texts(".docmt-map thead tr:first-child th") == ["Sentence 2"]


def test_an_uploaded_file_comes_back_in_its_layout(visitor, tmp_path, downloads):
    (tmp_path / "tricky.txt").write_bytes(TRICKY.encode())
    visitor.upload(tmp_path / "tricky.txt")
    shown, box = TRICKY.replace("\r", ""), visitor.one("#docmt-text textarea")
    visitor.wait(lambda: box.get_property("value") == shown)
    # a text box that is written in forgets the line endings
    box.send_keys("x", Keys.BACKSPACE)
    visitor.wait(lambda: box.get_property("value") == shown)
    rows = visitor.translate()
    # text is shown as text: no tag, no template
    assert [row["Source (en)"] for row in rows] == ["The <b>door</b> is {{value}} and ${1+1}.", "It was open."]
    for link in visitor.all(".docmt-download"):
        link.click()
    names = [f"translation.de.{kind}" for kind in ("txt", "tsv", "json")]
    visitor.wait(lambda: all((downloads / name).is_file() for name in names))
    text = (downloads / names[0]).read_bytes().decode()
    lines = text.split("\r\n")
    assert len(lines) == 4 and "\n" not in "".join(lines) and lines[1] == lines[3] == "" and lines[2].startswith("  ")
    assert lines[0] == rows[0]["Translation (de)"] and lines[2].strip() == rows[1]["Translation (de)"]
    content = json.loads((downloads / names[2]).read_text(encoding="utf-8"))
    assert content["translation_text"] == text and content["num_beams"] == 1
    table = (downloads / names[1]).read_text(encoding="utf-8").splitlines()
    assert table[0].split("\t") == ["source", "translation", "status", "without_context"] and len(table) == 4


def test_a_file_of_documents_offers_each_of_them(visitor, tmp_path):
    records = [{"id": "walk", "src": ["Go home.", "It is late."]}, {"id": "meal", "src": ["The soup is hot."]}]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    visitor.upload(tmp_path / "two.jsonl")
    visitor.wait(lambda: visitor.one("#docmt-text textarea").get_property("value") == "Go home.\nIt is late.")
    visitor.wait(lambda: visitor.all("#docmt-which input"))
    assert visitor.one("#docmt-cut input[value=lines]").is_selected()
    box = visitor.one("#docmt-which input")
    box.click()
    visitor.wait(lambda: len(visitor.all("[role=option]")) == 2)
    visitor.all("[role=option]")[1].click()
    visitor.wait(lambda: visitor.one("#docmt-text textarea").get_property("value") == "The soup is hot.")


def test_what_cannot_be_translated_is_answered_with_the_way_out(visitor, tmp_path):
    visitor.write("")
    visitor.press_translate()
    assert "There is no text to translate. Paste a document" in visitor.alert()
    (tmp_path / "latin.txt").write_bytes("Grüße an alle.".encode("latin-1"))
    visitor.upload(tmp_path / "latin.txt")
    visitor.wait(lambda: "is not UTF-8 text" in visitor.alert())
    assert "choose 'Save as' and the encoding UTF-8" in visitor.alert()
    visitor.browser.execute_script(
        "const box = arguments[0]; box.value = 'Go home. '.repeat(2500); box.dispatchEvent(new Event('input'))",
        visitor.one("#docmt-text textarea"),
    )
    visitor.press_translate()
    visitor.wait(lambda: "22,500 characters" in visitor.alert())
    picture(visitor, "message-1366")
    visitor.write("Go home.")
    assert len(visitor.translate()) == 1
    assert not visitor.texts("#docmt-problem [role=alert]")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_a_laptop_and_a_phone(browser, demo, theme):
    visitor = Visitor(browser, f"{demo[0]}?__theme={theme}")
    visitor.write(DOCUMENT)
    visitor.translate()
    visitor.look_at(2)
    for width in (1366, 390):
        visitor.resize(width)
        time.sleep(0.5)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"the page is {wide} pixels wide in a window of {width}"
        picture(visitor, f"{theme}-{width}")
    # every control has a name
    nameless = browser.execute_script("""
        const named = (part) => part.labels?.length || part.getAttribute('aria-label')
            || part.getAttribute('aria-labelledby') || part.textContent.trim() || part.closest('label');
        return [...document.querySelectorAll('button, input:not([type=file]), textarea, a')]
            .filter((part) => part.offsetParent && !named(part)).map((part) => part.outerHTML.slice(0, 200));
    """)
    assert nameless == []
    # WCAG AA asks for 4.5
    for selector in (".docmt-status.docmt-good", ".docmt-summary", "td mark.docmt-with", "td mark.docmt-without"):
        assert contrast(browser, selector) >= 4.5, selector


def contrast(browser: Chrome, selector: str) -> float:
    """Contrast of the first such text with what lies behind it, as WCAG defines it."""
    script = """
        const found = document.querySelector(arguments[0]);
        const read = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
        const layers = [];
        for (let part = found; part; part = part.parentElement)
            layers.push(read(getComputedStyle(part).backgroundColor));
        let back = [255, 255, 255];
        for (const [r, g, b, a = 1] of layers.filter((layer) => layer.length > 2).reverse())
            back = [r, g, b].map((value, k) => a * value + (1 - a) * back[k]);
        const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
        const pair = [light(read(getComputedStyle(found).color)), light(back)].sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
    """
    return browser.execute_script(script, selector)


def test_nothing_leaves_the_machine_and_nothing_is_amiss(browser, demo):
    """Last: of all that the tests above have done; of itself a visit."""
    address, refused = demo
    Visitor(browser, address)
    seen = set()
    for entry in browser.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            seen.add(event["params"]["request"]["url"])
    assert any(url.startswith(address) for url in seen)
    outside = [url for url in seen if urlsplit(url).scheme in ("http", "https", "ws") and not url.startswith(address)]
    assert outside == []
    assert not refused.exists(), refused.read_text()
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
