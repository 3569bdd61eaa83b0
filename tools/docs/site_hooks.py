"""For mkdocs: links into the repository outside of docs/ are checked, and shown as plain text on the site, which has no such pages."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)\s#]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    docs = Path(config.docs_dir).resolve()

    def shown(link: re.Match[str]) -> str:
        target = (docs / page.file.src_path).parent.joinpath(link["target"]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_path}: {link['target']} leads nowhere")
        return link["text"]

    return LINK.sub(shown, markdown)
