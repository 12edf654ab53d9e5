"""Text without secrets: addresses, and the options that open them, for people and logs."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

# After a colon without a port, a password may contain any character; object stores have no port.
_USER_INFO = re.compile(
    r"(\b(?:s3a?|gs|gcs|az|abfss?)://)[^/@\s'\":]*:[^\s\"]*@|(:?//)[^/@\s'\":]*:(?!:|\d*/)[^\s\"]*@|(://)(?!anonymous@)[^/@\s'\"]*@"
)
_WITHIN = r"(?<![.,:;!)\]}])"
"""The last character of an address is none of these: they belong to the sentence around it."""
_LITERAL = "s3a?|gs|gcs|file|local|memory|zip|tar|libarchive"
"""Protocols of which `?`, `;` and `#` are characters of a name; after a `?`, a `name=value` is hidden nevertheless."""
_PATH = r"[^\s'\"?;#:]*(?::(?!//)[^\s'\"?;#:]*)*"
"""Host and path, up to the next address: a long text is passed over once."""
# A quote is part of an address unless a delimiter or the end follows.
_AFTER_PATH = re.compile(
    rf"((?:\b(?!(?:{_LITERAL})://)[a-z][a-z\d+.-]{{,30}}://|with url: ){_PATH}[?;#]|\?(?=[^\s'\"?=&]*=))"
    r"((?:[^\s'\"]|'(?![\s,:;)\]}]|$))+)" + _WITHIN,
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"(%(?:3F|3B|23))[^\s'\"]*?%3D[^\s'\"]*" + _WITHIN, re.IGNORECASE)
_OF_TEXTS = str.maketrans({mark: chr(0xE000 + ord(mark)) for mark in " \t\r\n'\""})
"""Characters that end an address in a text, and stand-ins for them in an address alone, of which they are part."""
_BACK = {ord(stand_in): chr(mark) for mark, stand_in in _OF_TEXTS.items()}
_NAMES = {"export", "id", "versionId"}
"""The query parameters that identify a file; any other may be a token or a signature."""


def without_secrets(text: str) -> str:
    """Return a text whose addresses show no user, and after the path only the parameters that identify a file.

    >>> without_secrets("https://me:password@host/a.tar?X-Amz-Signature=abc was not found")
    'https://…@host/a.tar?… was not found'
    >>> without_secrets("https://host/uc?id=7&token=abc")
    'https://host/uc?id=7&…'
    """
    if "@" in text:
        text = _USER_INFO.sub(lambda found: f"{found[found.lastindex or 0]}…@", text)
    if "?" in text or ";" in text or "#" in text:
        text = _AFTER_PATH.sub(lambda found: found[1] + _plain_parts(found[1], found[2]), text)
    if "%" in text:
        text = _ESCAPED.sub(r"\1…", text)
    return text


def stream_name(address: str) -> str:
    """Return an address without secrets, as the name of a stream; local paths are unchanged.

    >>> stream_name("https://me:password@host/a.tar?sig=abc"), stream_name("/folder/what?a=b.txt")
    ('https://…@host/a.tar?…', '/folder/what?a=b.txt')
    """
    if "://" not in address:
        return address
    return without_secrets(address.translate(_OF_TEXTS)).translate(_BACK)


def shown_text(text: str) -> str:
    """Return a text, or an address alone, without secrets."""
    return stream_name(text) if re.match(r"[a-z][a-z\d+.-]*:[/:]", text, re.IGNORECASE) else without_secrets(text)


def _plain_parts(start: str, rest: str) -> str:
    parts = re.split("[&;?#]", rest)
    plain = [part for part in parts if part.partition("=")[0] in _NAMES] if start.endswith("?") else []
    return "&".join(plain if len(plain) == len(parts) else [*plain, "…"])


def hide_secrets(error: BaseException) -> None:
    """Remove the secrets of addresses from an error and its causes.

    A text made by a custom `__str__` is left as it is.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
        if notes := getattr(each, "__notes__", None):
            each.__notes__ = [without_secrets(note) if isinstance(note, str) else note for note in notes]
        parts = [_hidden(part) for part in each.args]
        if any(part is not before for part, before in zip(parts, each.args, strict=True)):
            each.args = (*parts,)
        for name in ("filename", "filename2", "strerror"):  # an OSError's text is made of these
            part = getattr(each, name, None)
            if isinstance(part, str) and (hidden := shown_text(part)) != part:
                setattr(each, name, hidden)


def _hidden(part: Any) -> Any:
    """Return an argument of an error as it is, or its cleaned text if it shows a secret."""
    if isinstance(part, (int, float, type(None))):
        return part
    text = part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part)
    hidden = without_secrets(text)
    return part if hidden == text else hidden


class Short(reprlib.Repr):
    """Makes short texts of values without secrets, which are removed before truncation could cut one in half."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(shown_text(x), level)

    def repr_OrderedDict(self, x: Any, level: int) -> str:  # noqa: N802 - named after the type
        return self.repr_dict(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        try:
            text = without_secrets(repr(x))
        except Exception:  # the base reports it
            return super().repr_instance(x, level)
        left = max(self.maxother - len(self.fillvalue), 0)
        return text if len(text) <= self.maxother else text[: left // 2] + self.fillvalue + text[-(left - left // 2) :]


short = Short().repr
"""Safe for values of any depth."""

_SENT = {"headers", "cookies", "auth", "key", "secret", "token", "username", "password", "client_kwargs"}
"""Options sent in request headers, where text must be a single line."""


_OF_CREDENTIALS = (
    *("auth", "client_kwargs", "connection_string", "cookie", "cred", "header", "key", "pass", "profile", "secret"),
    *("session", "token", "user"),
)


def without_credentials(options: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the options of a store, or other arguments, but those whose names are of credentials.

    >>> without_credentials({"anon": True, "aws_secret": "s", "Token": "t"})
    {'anon': True}
    """
    return {
        name: value for name, value in options.items() if not any(part in str(name).lower() for part in _OF_CREDENTIALS)
    }


_SECRETS = {
    *("access_key", "access_token", "api_key", "apikey", "api_token", "auth", "auth_token", "authorization", "cookie"),
    *("credentials", "passwd", "password", "secret", "secret_key", "token", "x_api_key"),
}


def is_secret(name: object) -> bool:
    """Say whether an argument or option of this name is a secret, so that no text shows its value.

    >>> is_secret("Authorization"), is_secret("unk_token")
    (True, False)
    """
    return str(name).lower().replace("-", "_") in _SECRETS


class Options(Mapping[str, Any]):
    """Options of a file system or a client that may be secret: no text shows their values.

    Raises ValueError for an option that cannot be sent, such as a key read from a file with its line break: clients
    would show it in their errors.

    >>> Options({"key": "an id", "secret": "a secret"})
    Options(key, secret)
    """

    def __init__(self, options: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        if not isinstance(options, (Mapping, type(None))):
            raise TypeError(f"storage_options must be a dict, and is of type {type(options).__name__}")
        if twice := sorted((options or {}).keys() & more.keys()):
            raise TypeError(f"{twice[0]} is given twice: in storage_options, and by itself")
        self._options = {**(options or {}), **more}
        for name in _SENT & self._options.keys():
            _expect_lines(name, self._options[name])

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return f"Options({', '.join(self._options)})"


def _expect_lines(place: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for name, part in value.items():
            _expect_lines(f"{place}[{name!r}]", part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _expect_lines(place, part)
    elif isinstance(value, str) and not value.lstrip().startswith("{") and re.search(r"^\s|[\x00-\x1f\x7f]", value):
        raise ValueError(
            f"the option {place} begins with a space or contains a line break, as text read from a file does: strip() "
            "it"
        )
