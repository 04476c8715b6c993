"""
The demo: a document in, its translation out sentence by sentence, with and without context, and what it attended to.

    python hub_cards/space/app.py
    DOCMT_MODELS=outputs/concat-adj,outputs/global-local python hub_cards/space/app.py

On the Hub this folder is a Space, and the models are loaded from there with the code that stands beside their weights;
nothing else of the project is needed. `README.md` says how. The page loads nothing from other servers.
"""

import os
from pathlib import Path
from typing import Any

import gradio as gr
from docmt_space.heat_maps import attention_view
from docmt_space.inputs import FILE_TYPES, Document, keep_line_endings, read_file
from docmt_space.pages import download_links, message, sentence_table
from docmt_space.systems import SEGMENTATIONS, System, configured_models
from docmt_space.translation import Translation


EXAMPLE = """\
The old bridge

The soldiers reached the bridge. It was old, and they did not trust it.
The elf saw the door. It was open, and she smiled.
"Where is the key?" said the captain. "It was on the table!"

  1. Choose File - Open.
  2. Select the document, and then click OK. It is opened in a new window.
"""
INTRODUCTION = """\
# DocMT: a document is more than its sentences

Each sentence is translated in the light of the others, and beside it once more by itself. Choose a row of the result \
to see which source words it attended to. What you enter is translated on this \
server and deleted soon after your visit.
"""
# a click on a row, or Enter on its button; marking text with the mouse is not a click
ON_ROW = """
element.addEventListener('click', (event) => {
  const row = event.target.closest('tr[data-sentence]');
  if (!row || String(window.getSelection())) return;
  element.querySelectorAll('tr[aria-current]').forEach((other) => other.removeAttribute('aria-current'));
  row.setAttribute('aria-current', 'true');
  trigger('select', {sentence: Number(row.dataset.sentence)});
});
"""
SHOW_ATTENTION = "() => document.querySelector('#docmt-attention').scrollIntoView({block: 'nearest'})"
HINT = '<p class="docmt-quiet">Choose a sentence above to see what it attended to.</p>'


def choices(words: dict[str, str]) -> list[tuple[str, str]]:
    """Words and value of each choice, as Gradio wants them."""
    return [(label, value) for value, label in words.items()]


def build_page(systems: dict[str, System]) -> gr.Blocks:
    """
    The page.

    Args:
        systems (`dict[str, System]`): Models by name; the first is chosen, and loaded, at the start.
    """
    first = next(iter(systems.values()))
    with gr.Blocks(title="DocMT", analytics_enabled=False, delete_cache=(600, 600)) as page:
        gr.Markdown(INTRODUCTION)
        documents, original, translation = gr.State([]), gr.State(None), gr.State(None)
        with gr.Row():
            with gr.Column(scale=3, min_width=320):
                text = gr.Textbox(EXAMPLE, label="Document", lines=12, max_lines=20, elem_id="docmt-text")
                upload = gr.UploadButton(
                    "Upload a document (.txt, or .jsonl with a document a line)",
                    file_types=list(FILE_TYPES),
                    size="md",
                    elem_id="docmt-upload",
                )
                which = gr.Dropdown(label="Document of the file", visible=False, elem_id="docmt-which")
            with gr.Column(scale=2, min_width=320):
                system = gr.Dropdown(list(systems), value=first.name, label="System", visible=len(systems) > 1)
                ways = first.decodings()
                decoding = gr.Radio(choices(ways), value=next(iter(ways)), label="Decoding", elem_id="docmt-decoding")
                segmentation = gr.Radio(
                    choices(SEGMENTATIONS), value="sentences", label="What is a sentence?", elem_id="docmt-cut"
                )
                beams = gr.Slider(1, 8, value=4, step=1, label="Beams (1 is fastest)", elem_id="docmt-beams")
                start = gr.Button("Translate", variant="primary", elem_id="docmt-start")
        problem = gr.HTML(elem_id="docmt-problem", apply_default_css=False)
        result = gr.HTML(elem_id="docmt-result", js_on_load=ON_ROW, apply_default_css=False)
        downloads = gr.HTML(elem_id="docmt-downloads")
        attention = gr.HTML(elem_id="docmt-attention", apply_default_css=False)

        def show_document(number: int, found: list[Document]) -> tuple:
            document = found[number]
            cut = document.segmentation or gr.skip()
            return document.text, document.text, cut

        def read(path: str) -> tuple:
            try:
                found = read_file(path)
            except ValueError as error:
                return message(str(error)), *[gr.skip()] * 5
            names = [(document.name, number) for number, document in enumerate(found)]
            several = gr.Dropdown(names, value=0, visible=len(found) > 1)
            return "", found, several, *show_document(0, found)

        def change_system(name: str) -> gr.Radio:
            ways = systems[name].decodings()
            return gr.Radio(choices(ways), value=next(iter(ways)))

        def translate(
            typed: str,
            file_text: str | None,
            name: str,
            how: str,
            cut: str,
            num_beams: int,
            progress: gr.Progress = gr.Progress(),  # noqa: B008 - Gradio finds it by this default
        ) -> tuple:
            def report(share: float, words: str) -> None:
                progress(share, desc=words)

            try:
                done = systems[name].translate(
                    keep_line_endings(typed, file_text),
                    decoding=how,
                    num_beams=int(num_beams),
                    segmentation=cut,
                    report=report,
                )
            except ValueError as error:
                return None, message(str(error)), "", "", ""
            return done, "", sentence_table(done), download_links(done), HINT

        def look(done: Translation | None, event: gr.EventData) -> str:
            if done is None:
                return message("Translate a document first.")
            try:
                found = systems[str(done.recipe["model"])].attention(done, int(event.sentence))
            except ValueError as error:
                return message(str(error))
            return attention_view(done, found)

        # one at a time: a model is not asked two things at once
        calls: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "model", "api_visibility": "private"}
        upload.upload(
            read, upload, [problem, documents, which, text, original, segmentation], api_visibility="private"
        )
        which.input(show_document, [which, documents], [text, original, segmentation], api_visibility="private")
        system.input(change_system, system, decoding, **calls)
        start.click(
            translate,
            [text, original, system, decoding, segmentation, beams],
            [translation, problem, result, downloads, attention],
            show_progress_on=[result],
            **calls,
        )
        result.select(look, translation, attention, show_progress="minimal", **calls).then(
            fn=None, js=SHOW_ATTENTION, api_visibility="private"
        )
    return page


def main() -> None:
    """Serve the page; address and port are those of Gradio's variables, `GRADIO_SERVER_NAME` and `_PORT`."""
    systems = {name: System(name, location) for name, location in configured_models(os.environ).items()}
    build_page(systems).launch(
        # fonts of the reader's machine: the theme's own come from another server
        theme=gr.themes.Default(font=("system-ui", "sans-serif"), font_mono=("ui-monospace", "monospace")),
        css_paths=Path(__file__).with_name("style.css"),
        footer_links=[],
        max_file_size="2mb",
        ssr_mode=False,
        share=False,
    )


if __name__ == "__main__":
    main()
