"""Finds dead links in Markdown files of the repository and in the built site.

    links.py markdown ROOT          all Markdown files that git tracks below ROOT
    links.py html FOLDER            all HTML files below FOLDER

A link is dead if its file does not exist or lies outside, if its file has no heading with its fragment,
or if its label has no definition. Links to other hosts are not followed, but a page of the site may load
nothing from them. Every Markdown file must be in the table of contents of the site. Prints one line for each
error, and ends with status 1 if there is one.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# A link or a picture, and a definition of a link.
MARKDOWN_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
LABEL = re.compile(r"\]\[([^\]]+)\]")
DEFINITION = re.compile(r"^\[([^\]]+)\]:", re.MULTILINE)
CONTENTS = "docs/site/SUMMARY.md"
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
# Links to other hosts, or to nothing.
OUTSIDE = ("http:", "https:", "mailto:", "data:", "javascript:")
# A link with a label that has no definition.
UNDEFINED = "undefined:"
# A file that a page loads from another host.
LOADED = "loaded:"


def markdown_page(path):
    """Returns the links of a page, and the fragments of its headings as code hosts make them."""
    text = path.read_text(encoding="utf-8")
    fences = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = CODE.sub("", text)
    links = [one or other for one, other in MARKDOWN_LINK.findall(prose)]
    links += [UNDEFINED + label for label in set(LABEL.findall(prose)) - set(DEFINITION.findall(prose))]
    fragments = set()
    for heading in HEADING.findall(fences):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number, fragment = 0, name
        while fragment in fragments:
            number += 1
            fragment = f"{name}-{number}"
        fragments.add(fragment)
    return links, fragments


class Page(HTMLParser):
    """The links and the ids of an HTML file."""

    def __init__(self, path):
        super().__init__()
        self.links, self.fragments, self.has_root_base = [], set(), False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.fragments |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        if tag == "base":
            self.has_root_base = attrs.get("href") == "/"
        target = attrs.get("href") if tag in ("a", "link") else attrs.get("src")
        # The page for missing files has addresses from the root of the host.
        if target and not self.has_root_base:
            is_elsewhere = tag != "a" and target.startswith(("http:", "https:", "//"))
            self.links.append(LOADED + target if is_elsewhere else target)


def html_page(path):
    page = Page(path)
    return page.links, page.fragments


def dead_links(root, paths, read):
    """Yields the path, the link and the reason of each dead link."""
    root = root.resolve()
    pages = {path.resolve(): read(path) for path in paths}
    for path, (links, _) in pages.items():
        for link in links:
            if link.startswith(OUTSIDE):
                continue
            if link.startswith(UNDEFINED):
                yield path, link.removeprefix(UNDEFINED), "the label has no definition"
                continue
            if link.startswith(LOADED):
                yield path, link.removeprefix(LOADED), "loaded from another host"
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_relative_to(root):
                yield path, link, "outside"
            elif not target.exists():
                yield path, link, "no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target][1]:
                yield path, link, "no such heading"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("markdown", "html"):
        sys.exit(__doc__)
    root = Path(sys.argv[2])
    if sys.argv[1] == "markdown":
        tracked = subprocess.run(["git", "-C", root, "ls-files", "-z", "*.md"], check=True, capture_output=True, text=True)
        # The table of contents of the site has paths of the staged folder.
        paths = [root / name for name in tracked.stdout.split("\0") if name and not name.startswith("docs/site/")]
        paths = [path for path in paths if not path.is_symlink()]
        dead = list(dead_links(root, paths, markdown_page))
        contents, _ = markdown_page(root / CONTENTS)
        unlisted = {path.relative_to(root).as_posix() for path in paths} - set(contents)
        dead += [(CONTENTS, name, "not in the table of contents") for name in sorted(unlisted)]
    else:
        paths = sorted(root.rglob("*.html"))
        dead = list(dead_links(root, paths, html_page))
    if not paths:
        sys.exit(f"{root}: no pages found")
    for path, link, reason in dead:
        print(f"{path}: {link}: {reason}")
    print(f"{len(paths)} pages, {len(dead)} errors")
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
