"""YAML as people expect it: the scalars of YAML 1.2's core schema, exact numbers, no surprises.

`no` and `on` are text, numbers keep the digits that were typed, a key may stand only once, and a file whose aliases
would expand beyond reason is refused before anything is built.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, ClassVar

import yaml

from solvent.core.exact import decimal
from solvent.core.loading import check_time, current_limits, refuse
from solvent.errors import ModelError, quote

_MAX_DEPTH = 60
#: Aliases may always multiply a document by this much.
_MAX_GROWTH = 10

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class _Loader(_LOADER):  # type: ignore[misc]
    """SafeLoader with the resolvers of the core schema and checked mappings."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar[dict[Any, Any]] = {}


def _construct_float(loader: Any, node: Any) -> Decimal | float:
    text = loader.construct_scalar(node)
    if not _FLOAT.fullmatch(text):
        raise ModelError(_place(node), "a number", quote(text))
    if text.lower().endswith(("inf", "nan")):
        return float(text.replace(".", ""))
    return decimal(text)


def _construct_bool(loader: Any, node: Any) -> bool:
    text = loader.construct_scalar(node).lower()
    if text not in ("true", "false"):
        raise ModelError(_place(node), "true or false", quote(text))
    return bool(text == "true")


def _construct_int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    try:
        return int(text)
    except ValueError:
        raise ModelError(_place(node), "a whole number of reasonable length", quote(text)) from None


def _construct_map(loader: Any, node: Any) -> dict[Any, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise ModelError(_place(node), "a mapping", "something else under the tag !!map")
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        try:
            repeated = key in seen
            seen.add(key)
        except TypeError:
            raise ModelError(_place(key_node), "a plain key", "a list or mapping") from None
        if repeated:
            raise ModelError(_place(key_node), "each key once", f"{quote(key)} twice")
    loader.flatten_mapping(node)
    return dict(loader.construct_mapping(node, deep=True))


def _place(node: Any) -> str:
    return f"line {node.start_mark.line + 1}"


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", rf"^(?:{_FLOAT.pattern})$", "-+.0123456789"),
    ("merge", r"^(?:<<)$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_Loader.add_constructor("tag:yaml.org,2002:bool", _construct_bool)
for _tag in ("null", "str", "seq"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", getattr(_LOADER, f"construct_yaml_{_tag}"))
_Loader.add_constructor(None, _LOADER.construct_undefined)


def parse(content: bytes) -> Any:
    """Return what a YAML document says.

    Raises
    ------
    ModelError
        If it is not YAML, not UTF-8, nested too deeply, or would expand beyond reason.

    Examples
    --------
    >>> parse(b"cost: 0.1000000000000000055511151231257827")["cost"]
    Decimal('0.1000000000000000055511151231257827')
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError("file", "text in UTF-8", f"byte {error.start} that is not") from None
    try:
        _measure(text)
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "file" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        raise ModelError(where, "YAML", getattr(error, "problem", None) or str(error).split("\n")[0]) from None
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError("file", "YAML", str(error)) from None


def _measure(text: str) -> None:
    """Walk the events without building anything, and refuse what would be too deep or too large once expanded."""
    sizes: list[int] = [0]
    anchors: list[str | None] = [None]
    known: dict[str, int] = {}
    most = current_limits().nodes
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in known:
                raise ModelError(_place(event), "an alias of something before it", f"*{event.anchor}")
            sizes[-1] += known[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            sizes[-1] += 1
            if event.anchor:
                known[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.append(1)
            anchors.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            size, anchor = sizes.pop(), anchors.pop()
            sizes[-1] += size
            if anchor:
                known[anchor] = size
        if len(sizes) > _MAX_DEPTH:
            raise ModelError("file", "a document of reasonable size", "one nested too deeply")
        if sizes[-1] > most + _MAX_GROWTH * count:
            found = f"one whose aliases expand to more than {most:,} values"
            refuse("nodes", "a document of reasonable size", found)
        if not count % 4096:
            check_time()


class _Dumper(_DUMPER):  # type: ignore[misc]
    """Writes what `_Loader` reads: lists of rows as blocks, what fits a line on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Inline(dict[str, Any]):
    """A mapping to be written on one line."""


def _quote_lookalikes(dumper: Any, text: str) -> Any:
    looks_typed = any(pattern.match(text) for rules in _Loader.yaml_implicit_resolvers.values() for _, pattern in rules)
    style = "'" if looks_typed else ("|" if "\n" in text else None)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _quote_lookalikes)
_Dumper.add_representer(
    _Inline,
    lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True),
)


def _dotted(dumper: Any, value: float) -> Any:
    text = repr(value)
    if "." not in text:
        text = text.replace("e", ".0e")  # YAML 1.1 readers take 1e-9 for text
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(float, _dotted)


def dump(entries: dict[str, Any]) -> str:
    """Return a model's entries as YAML text."""
    rows = [{**row, "outcomes": [_Inline(outcome) for outcome in row["outcomes"]]} for row in entries["rows"]]
    return str(
        yaml.dump(
            {**entries, "rows": rows},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=120,
            default_flow_style=None,
        )
    )
