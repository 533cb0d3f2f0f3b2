"""A page of the documentation, written by hand but for what a command writes between two marks."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Marks:
    """Two HTML comments, each once in a page and on a line of its own."""

    begin: str
    end: str

    def content(self, page: str) -> str:
        """The text between the marks of a page.

        Raises:
          ValueError: it lacks the marks.
        """
        return self._parts(page)[1].strip()

    def filled(self, page: str, text: str) -> str:
        """The page with this text between the marks.

        Raises:
          ValueError: it lacks the marks.
        """
        before, _, after = self._parts(page)
        return f"{before}{self.begin}\n\n{text.strip()}\n\n{self.end}{after}"

    def _parts(self, page: str) -> tuple[str, str, str]:
        before, begin, rest = page.partition(self.begin)
        content, end, after = rest.partition(self.end)
        if not (begin and end):
            raise ValueError(f"the page lacks the marks {self.begin!r} and {self.end!r}")
        return before, content, after
