"""One signed POST to a webhook, whose address may be any on the internet and none behind our own firewall.

    X-Alert-Timestamp: 1763913600
    X-Alert-Signature: sha256=<hex of HMAC-SHA256 over timestamp.body, by the alert's secret>

A name is resolved once, every address is checked, and the connection goes to one of those: what the name says a moment
later does not count (DNS rebinding). Redirects are not followed, proxies of the environment not used.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0  # for everything from the connection on
_USER_AGENT: Final = "log-query-endpoints-alerts"
_GLOBAL_IPV6: Final = ipaddress.ip_network("2000::/3")  # RFC 4291 section 2.4; elsewhere addresses wrap private ones
# What is in it and in IPv4 and not surely public, by IANA's registries of special-purpose addresses and of multicast.
# Not `is_global`: it is not the same in every version of Python.
_SPECIAL: Final = tuple(map(ipaddress.ip_network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",  # IETF and Teredo, examples, 6to4, examples
)))  # fmt: skip


class WebhookFailed(Exception):
    """The message was not taken; the text says why, for operators."""


class WebhookRefused(WebhookFailed):
    """The address may not be asked for."""


@dataclass(frozen=True, slots=True)
class Target:
    """A checked webhook address."""

    scheme: str
    host: str
    port: int
    path: str


def read_target(url: str) -> Target:
    """Return the parts of a webhook address. Raises WebhookRefused; says nothing about where its name leads."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WebhookRefused("This is no address: give one such as https://hooks.example.org/alerts.") from error
    schemes = ("https", "http") if settings.ALERT_WEBHOOK_PRIVATE else ("https",)
    if parts.scheme not in schemes:
        raise WebhookRefused("The address must begin with https://.")
    if not parts.hostname or parts.username is not None or parts.password is not None or parts.fragment:
        raise WebhookRefused("The address must have a host, and neither a user name nor a fragment (#).")
    if any(character <= " " or character > "~" for character in url):
        raise WebhookRefused("The address may have only printable ASCII characters; write others as %xx or xn--.")
    try:
        parts.hostname.encode("idna")
    except UnicodeError as error:  # an empty label, or one of over 63 characters
        raise WebhookRefused("The host is no name: between its dots are 1 to 63 characters.") from error
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    return Target(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), path)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of X-Alert-Signature."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


def post(url: str, body: bytes, *, secret: str, message_id: str, timestamp: int) -> None:
    """Send the body and return once the webhook has answered 2xx. Raises WebhookFailed, within some 15 s."""
    target = read_target(url)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": _USER_AGENT,
        "X-Alert-Id": message_id,
        "X-Alert-Timestamp": str(timestamp),
        "X-Alert-Signature": signature(secret, timestamp, body),
        "Connection": "close",
    }
    try:
        connected = _connected(target)
    except OSError as error:  # ssl.SSLError is one
        raise WebhookFailed(f"no connection: {_reason(error)}") from error
    # A timeout of the socket begins anew with each byte; an answer that drips must end too.
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(ANSWER_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    connection = http.client.HTTPConnection(target.host, target.port)
    try:
        connection.sock = _encrypted(connected, target, is_late) if target.scheme == "https" else connected
        connection.request("POST", target.path, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise WebhookFailed(_late_or(is_late, f"no answer: {_reason(error)}")) from error
    finally:
        timer.cancel()
        connection.close()
    if is_late.is_set():  # the headers ended with the connection
        raise WebhookFailed(_late_or(is_late, ""))
    if not 200 <= status < 300:
        raise WebhookFailed(f"it answered {status}")


def _encrypted(connected: socket.socket, target: Target, is_late: threading.Event) -> ssl.SSLSocket:
    try:
        return ssl.create_default_context().wrap_socket(connected, server_hostname=target.host)
    except OSError as error:
        connected.close()
        raise WebhookFailed(_late_or(is_late, f"no encrypted connection: {_reason(error)}")) from error


def _late_or(is_late: threading.Event, otherwise: str) -> str:
    return f"no answer within {ANSWER_SECONDS:g} s" if is_late.is_set() else otherwise


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)[:200]


def _connected(target: Target) -> socket.socket:
    """Return a connection to one of the addresses of the host. Raises WebhookRefused and OSError."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    for *_, address in found:
        check_address(str(address[0]))
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(address)
            check_address(str(connection.getpeername()[0]))
            connection.settimeout(ANSWER_SECONDS)
        except (OSError, WebhookRefused) as error:
            connection.close()
            if isinstance(error, WebhookRefused):
                raise
            failure = error
            continue
        return connection
    raise failure


def check_host(target: Target) -> None:
    """Raise WebhookRefused for a host that is not public as it is written; no name server is asked."""
    host = target.host.rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 section 6.3
        host = "127.0.0.1"
    with suppress(OSError):  # a name
        for *_, address in socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST):
            check_address(str(address[0]))


def check_address(text: str) -> None:
    """Raise WebhookRefused for an address that is not public, unless ALERT_WEBHOOK_PRIVATE allows it."""
    if settings.ALERT_WEBHOOK_PRIVATE:
        return
    address = ipaddress.ip_address(text.partition("%")[0])
    may_be_public = address.version == 4 or address in _GLOBAL_IPV6
    if not may_be_public or any(address in network for network in _SPECIAL):
        raise WebhookRefused("the name leads to a private address; ALERT_WEBHOOK_PRIVATE would allow it")
