"""One signed POST: what it carries, what counts as delivered, and which addresses are refused."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from endpoints.alerting import webhooks
from endpoints.alerting.webhooks import WebhookFailed, WebhookRefused, check_address, post, read_target
from tests.drills import MUCH_LATER_SECONDS
from tests.endpoints.alerting.receiver import Receiver, receiving, write_certificate


def send(url: str) -> None:
    post(url, b'{"a":1}', secret="lqa_secret", message_id="7", timestamp=1_900_000_000)


def test_carries_a_signature_that_a_receiver_can_check(receiver: Receiver) -> None:
    send(receiver.url)
    ((path, headers, body),) = receiver.received
    assert (path, body) == ("/hook?x=1", b'{"a":1}')
    expected = hmac.new(b"lqa_secret", b'1900000000.{"a":1}', hashlib.sha256).hexdigest()
    assert headers["X-Alert-Signature"] == f"sha256={expected}"
    assert (headers["X-Alert-Timestamp"], headers["X-Alert-Id"]) == ("1900000000", "7")
    assert headers["Host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_only_2xx_counts_and_no_redirect_is_followed(receiver: Receiver, status: int) -> None:
    receiver.status, receiver.location = status, f"http://127.0.0.1:{receiver.port}/elsewhere"
    with pytest.raises(WebhookFailed, match=f"it answered {status}"):
        send(receiver.url)
    assert len(receiver.received) == 1


def test_an_answer_that_drips_ends_at_the_deadline(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "ANSWER_SECONDS", 0.5)
    receiver.drips.set()
    started = time.monotonic()
    with pytest.raises(WebhookFailed, match=r"no answer"):
        send(receiver.url)
    assert time.monotonic() - started < MUCH_LATER_SECONDS


def test_nobody_listens(settings: Any) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = True
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(WebhookFailed, match="no connection"):
        send(f"http://127.0.0.1:{port}/")


def test_https_is_verified(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = True
    certificate = write_certificate(tmp_path)
    with receiving(certificate) as receiver:
        url = f"https://127.0.0.1:{receiver.port}/hook"
        with pytest.raises(WebhookFailed, match="no encrypted connection"):
            send(url)
        assert receiver.received == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        send(url)
        assert len(receiver.received) == 1


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]",
    ],
)  # fmt: skip
def test_no_spelling_of_loopback_is_connected_to(host: str, settings: Any) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = False
    with receiving() as receiver:
        monkeyed = read_target(f"https://{host}:{receiver.port}/")
        with pytest.raises((WebhookRefused, WebhookFailed)) as refused:
            send(f"https://{host}:{receiver.port}/")
        assert monkeyed.port == receiver.port
        assert receiver.received == []
    assert isinstance(refused.value, WebhookRefused) or "no connection" in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1",
        "224.0.0.1", "239.1.1.1", "255.255.255.255", "0.1.2.3", "240.0.0.1", "fe80::1%eth0", "fc00::1", "fec0::1",
        "ff02::1", "::1", "::", "::127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1",
        "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "100::1",
        # First and last of each special-purpose block, whatever this Python's ipaddress says of it.
        "0.0.0.0", "0.255.255.255", "10.255.255.255", "100.127.255.255", "127.0.0.1", "127.255.255.255",
        "169.254.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.170",
        "192.0.0.255", "192.0.2.255", "192.88.99.0", "192.88.99.1", "192.88.99.255", "192.168.255.255",
        "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255", "224.0.0.0",
        "239.255.255.255", "255.255.255.254", "1::", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "64:ff9b:1:ffff::",
        "100:0:0:1::1", "1fff:ffff::", "2001::", "2001:1::1", "2001:1::3", "2001:2::1", "2001:3::1", "2001:4:112::1",
        "2001:10::1", "2001:20::1", "2001:30::1", "2001:1ff:ffff::", "2001:db8:ffff::", "2002::", "2002:808:808::1",
        "2002:ffff::", "3fff::1", "3fff:fff:ffff::", "4000::", "5f00::1", "fdff::1", "febf::1", "feff::1", "ff0e::1",
        "::ffff:8.8.8.8", "::8.8.8.8", "::ffff:0:8.8.8.8",
    ],
)  # fmt: skip
def test_refuses_addresses_that_are_not_public(address: str) -> None:
    with pytest.raises(WebhookRefused, match="private address"):
        check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", "93.184.216.34", "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
        "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
        "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.31.196.1", "192.52.193.1", "192.88.98.255", "192.88.100.0",
        "192.167.255.255", "192.169.0.0", "192.175.48.1", "198.17.255.255", "198.20.0.0", "198.51.99.255",
        "203.0.114.0", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::5", "2000::1", "2001:200::1",
        "2001:db7::1", "2001:db9::1", "2001:4860:4860::8888", "2003::1", "2620:4f:8000::1", "3ffe::1", "3fff:1000::1",
    ],
)  # fmt: skip
def test_accepts_public_addresses(address: str) -> None:
    check_address(address)


def test_a_name_with_one_private_address_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 443)) for host in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(webhooks.socket, "getaddrinfo", addresses)
    with pytest.raises(WebhookRefused):
        send("https://hooks.example.org/")


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example.org", "http://hooks.example.org/", "ftp://hooks.example.org/", "https://", "https:///path",
        "https://user@hooks.example.org/", "https://user:word@hooks.example.org/", "https://hooks.example.org/#part",
        "https://hooks.example.org:99999/", "https://hooks.example.org/a b", "https://hooks.example.org/\r\nX: y",
        "https://[::1/", "file:///etc/passwd", "https://hôte.example.org/",
        "https://a..b/hook", "https://.example.org/", "https://" + "a" * 64 + ".example.org/",
    ],
)  # fmt: skip
def test_refuses_addresses_that_are_none(url: str) -> None:
    with pytest.raises(WebhookRefused):
        read_target(url)


def test_http_is_taken_only_where_private_addresses_are(settings: Any) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = True
    assert read_target("http://127.0.0.1:8080/x?y=1") == webhooks.Target("http", "127.0.0.1", 8080, "/x?y=1")
