"""Reports as a reader sees them: the tags, the text, the findings and the tables of a page, and the tables of Markdown."""

import re
from html.parser import HTMLParser

from cfgen.audit.report.page import report_html, report_markdown
from tests.audit.found import without_pictures


class Reader(HTMLParser):
    """Collects tags, the text, the texts of blocks of a class, and the cells of tables; notes what is opened and not closed."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text, self.rows, self.blocks = [], [], "", [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if attributes.get("class") == "found":
            self.blocks.append("")
        if tag not in self.VOID:
            self.open.append((tag, attributes.get("class")))

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        data = data.replace("\N{NO-BREAK SPACE}", " ")
        self.text += data
        names = [tag for tag, _ in self.open]
        if "th" in names or "td" in names:
            self.rows[-1][-1] += data
        if ("div", "found") in self.open:
            self.blocks[-1] += data


def read(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def markdown_rows(text):
    """The cells of all tables, as they are shown."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [[re.sub(r"\\(.)", r"\1", cell).replace("&lt;", "<").strip() for cell in row] for row in cells]


def both(found):
    """The page, read, and the Markdown; without figures."""
    found = without_pictures(found)
    return read(report_html(found)), report_markdown(found)
