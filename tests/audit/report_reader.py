"""Reports as a reader sees them: the tags, the text, the findings and the tables of a page."""

from html.parser import HTMLParser

from cfgen.audit.report._page import report_page


class Reader(HTMLParser):
    """Collects tags, the text, the texts of findings, and the cells of tables; notes which tags are not closed."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text, self.rows, self.findings = [], [], "", [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if attributes.get("class") == "finding":
            self.findings.append("")
        if tag not in self.VOID:
            self.open.append((tag, attributes.get("class")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        data = data.replace("\N{NO-BREAK SPACE}", " ")
        names = [tag for tag, _ in self.open]
        self.text += "" if "style" in names else data
        if "th" in names or "td" in names:
            self.rows[-1][-1] += data
        if ("article", "finding") in self.open:
            self.findings[-1] += data

    @property
    def plain(self):
        return " ".join(self.text.split())


def read(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def page_of(result):
    """The page without figures, because drawing them takes seconds."""
    return read(report_page(result, [], {}))
