"""Models as YAML, with the scalars of the YAML 1.2 core schema and exact numbers.

`no` and `on` are text, numbers keep all their digits, and a key may occur only once in a mapping. A file whose aliases
would expand to too many values is refused before it is built.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, ClassVar

import yaml

from solvent.core.exact import decimal
from solvent.core.loading import check_time, current_limits, refuse
from solvent.errors import ModelError, quote
from solvent.formats.documents import from_document, to_document
from solvent.formats.encoding import encode_text
from solvent.model.discounted import AnyModel

_MAX_DEPTH = 60
#: Aliases may always expand a document by this factor.
_MAX_GROWTH = 10

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class _Loader(_LOADER):  # type: ignore[misc]
    """A SafeLoader with the resolvers of the core schema that refuses repeated keys."""

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
        raise ModelError(_place(node), "a whole number with fewer digits", quote(text)) from None


def _construct_map(loader: Any, node: Any) -> dict[Any, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise ModelError(_place(node), "a mapping", "another value with the tag !!map")
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        try:
            repeated = key in seen
            seen.add(key)
        except TypeError:
            raise ModelError(_place(key_node), "a key that is text or a number", "a list or a mapping") from None
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
    """Return the value of a YAML document; numbers with a fraction or an exponent become `Decimal`.

    Raises
    ------
    ModelError
        If the content is not YAML in UTF-8, or is nested too deeply.
    LoadLimitError
        If its aliases expand to too many values.

    Examples
    --------
    >>> parse(b"cost: 0.1000000000000000055511151231257827")["cost"]
    Decimal('0.1000000000000000055511151231257827')
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError("file", "text in UTF-8", f"byte {error.start}, which is not") from None
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
    """Refuse a document that is nested too deeply or expands to too many values, before it is built."""
    sizes: list[int] = [0]
    anchors: list[str | None] = [None]
    known: dict[str, int] = {}
    most = current_limits().nodes
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in known:
                raise ModelError(_place(event), "an alias of an earlier anchor", f"*{event.anchor}")
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
            raise ModelError("file", f"at most {_MAX_DEPTH} levels of nesting", "more")
        if sizes[-1] > most + _MAX_GROWTH * count:
            refuse("nodes", f"aliases that expand to at most {most:,} values", "more")
        if not count % 4096:
            check_time()


class _Dumper(_DUMPER):  # type: ignore[misc]
    """A dumper without aliases, for text that `_Loader` reads back."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Inline(dict[str, Any]):
    """A mapping that is written on one line."""


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
        text = text.replace("e", ".0e")  # YAML 1.1 reads 1e-9 as text
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(float, _dotted)


def dump(document: dict[str, Any]) -> str:
    """Return the document of a model as YAML text."""
    rows = [{**row, "outcomes": [_Inline(outcome) for outcome in row["outcomes"]]} for row in document["rows"]]
    return str(
        yaml.dump(
            {**document, "rows": rows},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=120,
            default_flow_style=None,
        )
    )


def read(content: bytes) -> AnyModel:
    """Return the model in a YAML file.

    Raises
    ------
    ModelError
        If the content is not YAML or not a valid model.
    """
    return from_document(parse(content))


def write(model: AnyModel) -> bytes:
    """Return the content of a YAML file that holds a model."""
    document = to_document(model)
    encode_text(json.dumps(document, ensure_ascii=False))  # libyaml fails on lone surrogates without saying where
    return dump(document).encode()


def read_resources(content: bytes) -> list[str]:
    """Return the names of the resources in a YAML file, from the lines of that field alone."""
    lines: list[str] = []
    for line in content.decode().splitlines():
        begins_field = line[:1] not in ("", " ", "\t", "#", "-", "]")
        if lines and begins_field:
            break
        if lines or line.startswith("resources:"):
            lines.append(line)
    listed = (parse("\n".join(lines).encode()) or {}).get("resources") or []
    return [each["name"] if isinstance(each, dict) else each for each in listed]
