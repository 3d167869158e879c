"""Look for phrases that the project does not use: `prose.py FILE_OR_FOLDER ...` prints each place, and fails if any.

Documentation, docstrings, comments and messages are written in plain technical English. The list below holds turns that
are elliptical, archaic or metaphorical, each with what to write instead. Words that codespell knows are not repeated
here.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

#: Phrases as regular expressions, without regard to case, and what to write instead.
BANNED = {
    r"between what\b": "bounds on ..., or the range of ...",
    r"\bso many\b(?! \w+ that)": "the number, or 'enough ... that'",
    r"\bthat is none\b": "say what it is not, and why",
    r"(?-i:\bOf the draws\b)": "'Random seed.'",
    r"\bdearest\b": "the largest cost",
    r"\bwhatever (?:he|she|it|they|one|else|happens)\b": "'regardless of ...', or 'under any outcome'",
    r"\bwhoever\b": "name the person, or use the passive",
    r"\b(?:nobody|somebody)\b": "'no one', or name the caller",
    r"\banyone listens\b": "'a sink is registered'",
    r"\bin the house\b|\bof the house\b": "'in this project'",
    r"\brooms\b": "packages",
    r"\bpurse\b": "budget",
    r"\btells? the story\b|\bwith a story\b": "'run the example', 'with a description'",
    r"\bluck\b": "'chance', 'randomness' or 'outcome'",
    r"\bat no step\b": "'not at any step'",
    r"\bbelow Solvent's line\b": "name the methods",
    r"\bof no account\b": "'irrelevant', or 'does not count'",
    r"\bof no use\b": "'useless', or say why",
    r"\bwill do\b|\bwould do\b": "'is enough'",
    r"\b(?:is|are|be|was|were) spoken of\b|\bspeaks? of\b": "'refers to'",
    r"\bnever (?:is |be |was |goes |go )?over\b(?! budget)": "'never exceeds the budget'",
    r"\bas can be had\b": "'as possible'",
    r"\bfor ever\b": "forever",
    r"\bmade again\b|\bmakes? the figures again\b": "reproduced",
    r"\bwhat (?:people|others) (?:use|do)\b": "'standard methods'",
    r"\bset it beside\b": "'compare with'",
    r"\bword for word\b": "literally",
    r"\bof its own accord\b|\bby itself it\b": "automatically",
}
#: Kinds of files that hold prose.
SUFFIXES = {".md", ".py", ".yml", ".yaml", ".toml", ".txt", ""}
#: Folders that are written by machines.
SKIPPED = {"__pycache__", "katex", "golden", "format1", ".venv"}

_PATTERNS = [(re.compile(phrase.replace(" ", " +"), re.I), instead) for phrase, instead in BANNED.items()]


class Hit(NamedTuple):
    """A banned phrase: the line that it starts in, the words found, and what to write instead."""

    line: int
    found: str
    instead: str


def hits(text: str) -> Iterator[Hit]:
    """Yield the banned phrases of a text, also those that are broken over two lines.

    Examples
    --------
    >>> next(hits("Rooms of the tree."))
    Hit(line=1, found='Rooms', instead='packages')
    >>> list(hits("Packages of the tree."))
    []
    """
    joined = re.sub(r"\n[ \t#*>]*", lambda match: "\n" + " " * (len(match[0]) - 1), text)
    flat = re.sub(r"\s", " ", joined)
    for pattern, instead in _PATTERNS:
        for match in pattern.finditer(flat):
            yield Hit(text.count("\n", 0, match.start()) + 1, re.sub(" +", " ", match[0]), instead)


def files(places: Iterable[str]) -> Iterator[Path]:
    """Yield the files with prose under some paths: tests themselves, and this list, are not among them."""
    for place in map(Path, places):
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in found:
            prose = path.is_file() and path.suffix in SUFFIXES and not SKIPPED & set(path.parts)
            if prose and not path.name.startswith("test_") and path.resolve() != Path(__file__).resolve():
                yield path


def main(places: list[str]) -> int:
    """Print every banned phrase, and return 1 if there is one."""
    failed = 0
    for path in files(places):
        for hit in sorted(hits(path.read_text(encoding="utf-8"))):
            print(f"{path}:{hit.line}: {hit.found!r}: write {hit.instead}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
