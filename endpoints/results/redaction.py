"""IP and e-mail addresses in any text or JSON value become ``REDACTED`` (section 7 of the service contract).

The following rules decide cases that a text alone leaves open:

- A dotted number of exactly four parts, each at most 255, is an IPv4 address anywhere, even in a user agent
  (``Chrome/126.0.0.0``) or with leading zeros, which ``inet_aton`` reads. Numbers with three or five parts, or with a
  part over 255, stay. Only ASCII digits count.
- An IPv6 address (RFC 4291 section 2.2) is a run of hexadecimal groups and colons that is a token of its own, with its
  zone if it has one (RFC 4007). Times, MAC addresses and fingerprints do not parse as one and stay; eight groups do.
- ``::`` touching a word (``std::vector``, ``'x'::text``) is code. Bare ``::`` is an address only if it fills the
  value or is delimited as one: ``[::]``, ``::/0``, ``bind=::,``, ``address "::"``.
- An e-mail address needs a local part and a domain with a dot (RFC 5321 and 6531), or a bracketed address as domain.
  ``user@198.51.100.7`` is a login on a host: only the host is replaced.

Ports, prefix lengths and brackets stay: ``[2001:db8::1]:443`` gives ``[REDACTED]:443``. A percent-encoded ``@`` or
``:`` counts as the character. The time grows linearly with the length of any text.
"""

from __future__ import annotations

import json
import re

REDACTED = "REDACTED"

# An address that touches another hides it from the first pass (a@::1.example.org); limited, to keep the time linear.
_PASSES = 5

# Letters of an internationalised address: everything but white space, punctuation and symbols, by block.
_LETTER = (
    r"A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u167f\u1681-\u1fff\u200c\u200d\u2c00-\u2dff"
    r"\u3005-\u3007\u3021-\ud7ff\uf900-\ufdff\ufe70-\ufefc\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc"
    r"\U00010000-\U0010ffff"
)
_UTF8_ESCAPE = "%[89A-Fa-f][0-9A-Fa-f]"

# Escapes of a delimiter: their digits belong to no address ("%20198.51.100.7").
_DELIMITER_ESCAPES = frozenset(f"{ord(character):02x}" for character in "\t\n\r \"#&'(),/:;<=>?@[\\]{|}")

_LABEL = rf"(?>(?:[0-9_\-{_LETTER}]|{_UTF8_ESCAPE})+)"
# The part of an e-mail address from its @ on. The greedy loop gives back each label at most once, and no match crosses
# the next @, so all matches together read each character a fixed number of times.
_EMAIL_DOMAIN = re.compile(
    r"(?:@|%(?:25)?40|\\u0040)"
    r"(?:(?![1-9]x\.(?:png|jpe?g|gif|webp|svg)(?!\w))"  # icon@2x.png is an image for dense screens
    rf"(?:{_LABEL}[.\u3002\uff0e\uff61])+(?:xn--[0-9A-Za-z\-]++|(?>(?:[{_LETTER}]|{_UTF8_ESCAPE}){{2,}}))"
    r"|\[(?>(?:IPv6:)?)(?P<literal>[0-9A-Fa-f:.]{2,50})\])"
)
# The part before the @, read backwards: "(?!…)" stops at an escaped delimiter, so %3Drobin loses only robin.
_DELIMITERS_BACKWARDS = "|".join(sorted(code[::-1] for code in _DELIMITER_ESCAPES))
_LOCAL_PART_BACKWARDS = re.compile(
    r'"\\[^"\r\n]{1,64}+"\\'  # \"a b\"@ inside a JSON text inside the value
    r'|"(?!\\)(?:"\\|[^"\r\n]){1,64}"'
    rf"|(?>(?:(?!(?i:{_DELIMITERS_BACKWARDS})%|[nrt]\\|[0-9A-Fa-f]{{4}}u\\)"
    rf"(?:[0-9A-Fa-f]{{2}}%|[0-9._+~\-{_LETTER}]|(?<=[{_LETTER}])'(?=[{_LETTER}])))+)"
)

# An octet, with leading zeros in decimal or octal: inet_aton reads 0300 as 192.
_OCTET = r"(?:(?=[0-9])0*+(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[0-9]{0,2})|0++[0-3][0-7]{2})"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")

# A zone, unless it is an escaped delimiter or already part of the next address.
_ZONE = (
    r"(?>(?P<zone>%(?:25|(?!2[0-9A-Fa-f]|3[A-Fa-f]|40|5[Dd]|7[CDcd]))[\w\-]++(?>(?:\.[\w\-]++)*)"
    r"(?!:[0-9A-Fa-f]*+:))?)"
)
_IPV4_TAIL = rf"(?>(?P<tail>(?:\.{_OCTET}){{3}}(?!\.?[0-9]))?)"
# The look-behinds let a match start only where a run starts; otherwise a long run would be read once per character.
_IPV6_RUN = re.compile(
    rf"(?<![0-9A-Fa-f:])(?P<run>[0-9A-Fa-f]*+:[0-9A-Fa-f]*+:[0-9A-Fa-f:]*+){_IPV4_TAIL}{_ZONE}", re.ASCII
)
_IPV6_ENCODED_RUN = re.compile(
    r"(?<![0-9A-Fa-f])(?P<run>[0-9A-Fa-f]*+%3[Aa][0-9A-Fa-f]*+%3[Aa](?>(?:[0-9A-Fa-f]|%3[Aa])*))" + _IPV4_TAIL + _ZONE,
    re.ASCII,
)
_ENCODED_COLON = re.compile("%3[Aa]")
_IPV6_COMPRESSED = re.compile(
    r"(?>(?:[0-9A-Fa-f]{1,4}(?>(?::[0-9A-Fa-f]{1,4})*))?)::(?>(?:[0-9A-Fa-f]{1,4}(?>(?::[0-9A-Fa-f]{1,4})*))?)"
)
_IPV6_FULL = re.compile(r"(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}")
# With a decimal digit, and with three groups or a first group that networks use (2000::/3, fc00::/7, fe80::/10).
_IPV6_UNMISTAKABLE = re.compile(
    r"(?=[^0-9]*+[0-9])(?::*+[0-9A-Fa-f.]++:++[0-9A-Fa-f.]++:++[0-9A-Fa-f]|[23fF][0-9A-Fa-f]{3}:)"
)
_IPV6_LONGEST = 64  # characters; generous, for zeros before the octets of an embedded IPv4 address

_IPV4_RUN = re.compile(r"(?<![0-9])(?<![0-9]\.)[0-9]++(?:\.[0-9]++){3}(?!\.?[0-9])")
_IPV4_BEFORE = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.\Z")

_OPENING = frozenset(["", *" \t\n,;=[(<{|/@&?"])
_TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}m\Z")
_BARE_BEFORE = re.compile(r"(?:\A\s*|[=,\[]|(?<![(+\\])(?<![(+] )\\?[\"'])\Z")
_BARE_AFTER = re.compile(r"(?:\s*\Z|[\],;&\"'\\\s)]|/[0-9])")

# All up to the next string that may contain an address, and that string: Python is called for no other. Both are
# optional, as is the closing quote, so that a match begins where the last one ended and each character is read once.
_PLAIN_TEXT = r'(?>(?:[^"\\@%.:]++|\.(?![0-9]++\.[0-9]++\.[0-9])|:(?!:|(?:[0-9A-Fa-f]{1,4}:){5}))*)'
_NEXT_STRING = re.compile(
    rf'(?>(?P<before>[^"]*+(?>(?:"(?>[^"\\@%.:]*+"|{_PLAIN_TEXT}")[^"]*+)*)))'
    r'(?P<literal>"(?>(?:[^"\\]++|\\.)*)(?>(?P<closed>"(?>(?P<key>[ \t\r\n]*+:)?))?))?',
    re.DOTALL,
)
_SURROGATE = re.compile("[\ud800-\udfff]")


# What every address has a part of, each pattern with a literal first character, which is found far faster than a class.
_ESCAPED_SIGN = re.compile(r"%(?:(?:25)?40|3[Aa][0-9A-Fa-f]*+%3[Aa])")
_FOUR_NUMBERS = re.compile(r"\.(?<=[0-9]\.)[0-9]++\.[0-9]++\.[0-9]")
_GROUPS = re.compile(r":(?::|(?:[0-9A-Fa-f]{1,4}:){5})")


def redact_text(text: str) -> str:
    """Return the text with every address replaced; redacting a second time changes nothing."""
    for _ in range(_PASSES):
        if not _may_contain_address(text):
            break
        redacted = _redact_once(text)
        if redacted == text:
            break
        text = redacted
    return text


def redact_json(document: str) -> str:
    """Return the JSON text with the addresses in its string values replaced; every other character stays as it is.

    Object keys, numbers and white space are copied, never decoded. Raises ValueError on a string without its end or
    with a malformed escape.
    """
    return _NEXT_STRING.sub(_literal_replacement, document)


def json_may_contain_address(document: str) -> bool:
    """Tell whether redaction may change a value of the JSON text; an escape may hide any character."""
    return "\\u" in document or _may_contain_address(document)


def _may_contain_address(text: str) -> bool:
    return (
        "@" in text
        or _FOUR_NUMBERS.search(text) is not None
        or _GROUPS.search(text) is not None
        or _ESCAPED_SIGN.search(text) is not None
        or "\\u0040" in text
    )


def _redact_once(text: str) -> str:
    if "@" in text or "40" in text:
        text = _redact_emails(text)
    if text.count(":") >= 2:
        text = _IPV6_RUN.sub(_ipv6_replacement, text)
    if "%3" in text:
        text = _IPV6_ENCODED_RUN.sub(_ipv6_replacement, text)
    if "." in text:
        text = _IPV4_RUN.sub(_ipv4_replacement, text)
    return text


def _literal_replacement(match: re.Match[str]) -> str:
    literal = match["literal"]
    if literal is None or match["key"] is not None:
        return match.group()
    if match["closed"] is None:
        raise ValueError("The JSON text ends inside a string.")
    value: str = json.loads(literal, strict=False) if "\\" in literal else literal[1:-1]
    redacted = redact_text(value)
    if redacted == value:
        return match.group()
    # Half a surrogate pair cannot be encoded as UTF-8, but it can be escaped.
    return match["before"] + json.dumps(redacted, ensure_ascii=_SURROGATE.search(redacted) is not None)


def _redact_emails(text: str) -> str:
    kept: list[str] = []
    end = 0
    backwards = ""
    for domain in _EMAIL_DOMAIN.finditer(text):
        literal = domain["literal"]
        if literal is not None and not (_is_ipv4(literal) or _is_ipv6(literal)):
            continue
        at = domain.start()
        if kept and at == end:  # a@b.example@c.example
            end = domain.end()
            continue
        backwards = backwards or text[::-1]
        local = _LOCAL_PART_BACKWARDS.match(backwards, len(text) - at, len(text) - end)
        if local is None:
            continue
        name = local.group().rstrip(".")
        if name:
            kept += (text[end : at - len(name)], REDACTED)
            end = domain.end()
    kept.append(text[end:])
    return "".join(kept)


def _ipv4_replacement(match: re.Match[str]) -> str:
    run = match.group()
    for skip in (*_escape_lengths(match.string, match.start()), 0):
        if _is_ipv4(run[skip:]):
            return run[:skip] + REDACTED
    return run


def _ipv6_replacement(match: re.Match[str]) -> str:
    written, run, tail, zone = match.group(), match["run"], match["tail"] or "", match["zone"] or ""
    colon = 1
    if "%" in run:
        run = _ENCODED_COLON.sub(":", run)
        colon = 3
    if "::" not in run and run.count(":") < (6 if tail else 7):
        return written
    run_end = match.end("run")
    readings = [(run + tail, run_end + len(tail), zone), (run, run_end, "")] if tail else [(run, run_end, zone)]
    for body, end, scope in readings:
        span = _ipv6_span(body, match, end=end)
        if span is not None:
            first, last = (index + (colon - 1) * body.count(":", 0, index) for index in span)
            rest = written[last:]
            return written[:first] + REDACTED + (rest.removeprefix(scope) if span[1] == len(body) else rest)
    return written


def _ipv6_span(body: str, match: re.Match[str], *, end: int) -> tuple[int, int] | None:
    """Return the place of the address in the run: all of it, or without a name or port tied to it by a colon."""
    text, start = match.string, match.start()
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    colon = body.find(":")
    starts: tuple[int, ...] = (0, colon + 1)
    glued_before = False
    if before not in _OPENING:
        glued_before = _is_word(before) and not _ends_escape(text, start)
        starts = (*_escape_lengths(text, start), *starts)
        octet = len(body) - len(body.lstrip("0123456789"))
        if octet and _IPV4_BEFORE.search(text, max(0, start - 14), start):
            starts = (octet, colon + 1)  # 198.51.100.7:2001:db8::1 - the run starts with an octet
    for first in starts:
        for last in (len(body), body.rfind(":")):
            address = body[first:last] if last - first <= _IPV6_LONGEST else ""
            if not _is_ipv6(address):
                continue
            if address == "::":
                accepted = _is_delimited(text, start + first, end - len(body) + last)
                if not accepted and (first, last) == (starts[0], len(body)):
                    return None
            elif (glued_before and first == 0) or (last == len(body) and _is_word(after)):
                accepted = _is_unmistakable(address)
            else:
                accepted = not _is_cast(address, before if first == 0 else "", after)
            if accepted:
                return first, last
    return None


def _is_ipv4(text: str) -> bool:
    return _IPV4.fullmatch(text) is not None


def _is_ipv6(text: str) -> bool:
    """Say whether the text is an IPv6 address without zone (like ``ipaddress``, but octets may have leading zeros)."""
    if "." in text:
        head, _, tail = text.rpartition(":")
        if not _is_ipv4(tail):
            return False
        text = head + ":0:0"
    if "::" in text:
        # "::" stands for at least one group, and each group except the outermost adds one colon.
        colons = text.count(":") - text.startswith("::") - text.endswith("::")
        return colons <= 7 and _IPV6_COMPRESSED.fullmatch(text) is not None
    return _IPV6_FULL.fullmatch(text) is not None


def _escape_lengths(text: str, start: int) -> tuple[int, ...]:
    """Return how many characters at the start belong to an escaped delimiter (%20, JSON's \\u0022) or REDACTED."""
    if text.startswith("REDACTED", start - 6):  # a second redaction must not read the last two letters as a group
        return (2,)
    if text[start - 1 : start] == "%" and text[start : start + 2].lower() in _DELIMITER_ESCAPES:
        return (2,)
    if start >= 2 and text[start - 2 : start] == "\\u":
        return (4,)
    return ()


def _ends_escape(text: str, end: int) -> bool:
    """Say whether the letter before end is the last of an escape (\\n in a JSON text) or of a terminal colour code."""
    return (end >= 2 and text[end - 2] == "\\" and text[end - 1] in "nrt") or (
        text[end - 1] == "m" and _TERMINAL_COLOUR.search(text, max(0, end - 15), end) is not None
    )


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _is_unmistakable(address: str) -> bool:
    """Say whether an address next to a word is too long to be code: x::1 is code, x2001:db8::1 is not."""
    return _IPV6_UNMISTAKABLE.match(address) is not None and not address.endswith("::")


def _is_cast(address: str, before: str, after: str) -> bool:
    """Say whether the text is the cast '1'::dec: dec is the only PostgreSQL type with a hexadecimal name."""
    return address.lower() == "::dec" and before in {"'", '"', ")", "]"} and after != before


def _is_delimited(text: str, start: int, end: int) -> bool:
    return _BARE_BEFORE.search(text, max(0, start - 4), start) is not None and _BARE_AFTER.match(text, end) is not None
