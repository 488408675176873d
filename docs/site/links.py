"""Finds dead links in Markdown files of the repository and in the built site.

    links.py markdown ROOT          all Markdown files that git tracks below ROOT
    links.py html FOLDER            all HTML files below FOLDER

A link is dead if its file does not exist, or if its file has no heading with its fragment. Links to
other hosts are not followed. Prints one line for each dead link, and ends with status 1 if there is one.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# A link or a picture, and a definition of a link.
MARKDOWN_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
# Links of the site to other hosts, or to nothing.
OUTSIDE = ("http:", "https:", "mailto:", "data:", "javascript:")


def markdown_page(path):
    """Returns the links of a page, and the fragments of its headings as code hosts make them."""
    text = path.read_text(encoding="utf-8")
    fences = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    links = [one or other for one, other in MARKDOWN_LINK.findall(CODE.sub("", text))]
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
        self.links, self.fragments = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.fragments |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        target = attrs.get("href") if tag in ("a", "link") else attrs.get("src")
        if target:
            self.links.append(target)


def html_page(path):
    page = Page(path)
    return page.links, page.fragments


def dead_links(paths, read):
    """Yields the path, the link and the reason of each dead link."""
    pages = {path.resolve(): read(path) for path in paths}
    for path, (links, _) in pages.items():
        for link in links:
            if link.startswith(OUTSIDE):
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
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
        dead = list(dead_links(paths, markdown_page))
    else:
        paths = [path for path in root.rglob("*.html") if path.name not in ("print.html", "toc.html", "404.html")]
        paths = [path for path in paths if "page" not in path.relative_to(root).parts]
        dead = list(dead_links(paths, html_page))
    if not paths:
        sys.exit(f"{root}: no pages found")
    for path, link, reason in dead:
        print(f"{path}: {link}: {reason}")
    print(f"{len(paths)} pages, {len(dead)} dead links")
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
