"""Hooks of MkDocs for three things that `mkdocs.yml` cannot express:

- The navigation is the index in docs/README.md: a heading is a tab, a heading below it a group, and the links are
  its pages. So a page in the index is in the navigation, and a test finds a page that the index lacks.
- The documents at the root of the checkout and the examples are pages too. MkDocs reads only docs/, so these are
  handed to it as generated files, and links to them are changed to lead to the generated page.
- A link to any other file of the checkout becomes plain text: the site does not hold that file.

Rejected: a plugin for each of the three. They need more configuration than this file has lines.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "README.md"
DOCUMENTS = ("ARCHITECTURE.md", "HACKING.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
LANGUAGES = {".py": "python", ".c": "c", ".toml": "toml", ".js": "javascript", ".html": "html"}

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Which file of the checkout, outside docs/, is which page."""
    found = {"README.md": "index.md", "docs/README.md": "contents.md"}
    found |= {name: f"project/{name.lower()}" for name in DOCUMENTS}
    for path in sorted((ROOT / "examples").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.name == "README.md":
            found[name] = name.lower()
        elif path.suffix in LANGUAGES and "__pycache__" not in name:
            found[name] = f"{name.replace('.', '_')}.md"
    return found


PAGES: Mapping[str, str] = pages()
ORIGINS = {page: name for name, page in PAGES.items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = navigation(INDEX.read_text(encoding="utf-8"))
    return config


def navigation(index: str) -> list[dict[str, Any]]:
    """The tabs: a heading with one link is that page, any other is a section with groups."""
    tabs: list[dict[str, Any]] = [{"Home": [{"Bursar": "index.md"}, {"Contents": "contents.md"}]}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        first, *groups = re.split(r"^### ", body, flags=re.MULTILINE)
        entries = links(first)
        for group in groups:
            title, _, rest = group.partition("\n")
            entries.append({title: links(rest)})
        tabs.append({heading: entries[0].popitem()[1] if len(entries) == 1 else entries})
    return tabs


def links(text: str) -> list[dict[str, Any]]:
    """The pages of a list: the first link of each item."""
    found = re.findall(r"^- \[([^\]]+)\]\(([^)#\s]+)\)", text, re.MULTILINE)
    return [{title: page_of(posixpath.join("docs", target))} for title, target in found]


def page_of(target: str) -> str | None:
    """The page that shows a file of the checkout, or None."""
    path = posixpath.normpath(target)
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """README.md at the root is the first page, not the index of docs/, which gets a page of its own."""
    if shadowed := files.get_file_from_path("README.md"):
        files.remove(shadowed)
    for page, name in ORIGINS.items():
        files.append(File.generated(config, page, content=text_of(ROOT / name)))
    return files


def text_of(path: Path) -> str:
    """A document as it is; a program as a page with its source."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# `{path.relative_to(ROOT).as_posix()}`\n\n```{LANGUAGES[path.suffix]}\n{text.rstrip()}\n```\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    origin = ORIGINS.get(here, f"docs/{here}")

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        path, hash_sign, anchor = target.partition("#")
        if "://" in target or not path:
            return match.group()
        shown = page_of(posixpath.join(posixpath.dirname(origin), path))
        if shown is None:
            return words
        return f"{mark}[{words}]({posixpath.relpath(shown, posixpath.dirname(here) or '.')}{hash_sign}{anchor})"

    pieces: list[str] = []
    end = 0
    for fence in FENCE.finditer(markdown):
        pieces += [LINK.sub(link, markdown[end : fence.start()]), fence.group()]
        end = fence.end()
    pieces.append(LINK.sub(link, markdown[end:]))
    return "".join(pieces).replace("```python-fragment", "```python")
