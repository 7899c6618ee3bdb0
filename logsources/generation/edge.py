"""Rows of edge_logs: one request at the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from logsources.generation.vocabulary import (
    REFERERS,
    USER_AGENTS,
    Fields,
    client_address,
    hexadecimal,
    http_date,
    milliseconds,
    pick,
)


@dataclass(frozen=True, slots=True)
class _Area:
    """A part of the API: how often it is called, and with which targets (paths with their search)."""

    weight: int
    methods: tuple[str, ...]
    targets: tuple[str, ...]
    typical_milliseconds: float


@dataclass(frozen=True, slots=True)
class _Place:
    city: str
    colo: str
    continent: str
    country: str
    latitude: str
    longitude: str
    postal_code: str
    region_code: str
    timezone: str
    is_eu_country: str


_AREAS: Final = (
    _Area(
        40,
        ("GET", "GET", "GET", "POST", "PATCH", "DELETE"),
        ("/rest/v1/orders?select=id", "/rest/v1/products?select=*&price=gt.10", "/rest/v1/rpc/place_order"),
        30,
    ),
    _Area(
        18, ("POST", "GET"), ("/auth/v1/token?grant_type=password", "/auth/v1/user", "/auth/v1/logout?scope=local"), 60
    ),
    _Area(
        14,
        ("GET", "GET", "POST"),
        ("/storage/v1/object/public/avatars/42.png", "/storage/v1/object/sign/invoices/8812.pdf?expiresIn=60"),
        90,
    ),
    _Area(10, ("GET",), ("/realtime/v1/websocket?vsn=1.0.0", "/realtime/v1/api/tenants/health"), 15),
    _Area(10, ("POST",), ("/functions/v1/send-invoice", "/functions/v1/resize-image?width=200"), 180),
    # Several areas in one path, or another area only in the search: counting easily gets such requests wrong.
    _Area(
        6,
        ("GET", "POST"),
        (
            "/storage/v1/object/public/manuals/rest/v1.pdf",
            "/rest/v1/storage_usage?select=bytes",
            "/functions/v1/proxy/auth/v1/user",
            "/auth/v1/verify?redirect_to=https%3A%2F%2Fshop.example.org/rest/v1",
            "/rest/v1/realtime/auth_events?select=id",
        ),
        70,
    ),
    _Area(2, ("GET",), ("/", "/favicon.ico", "/.env"), 2),
)
_AREA_WEIGHTS: Final = tuple(area.weight for area in _AREAS)
_STATUS_CODES: Final = {
    "200": 850, "201": 40, "204": 25, "206": 10, "304": 10, "400": 12, "401": 14, "403": 6, "404": 16, "409": 4,
    "429": 4, "500": 5, "502": 2, "503": 2,
}  # fmt: skip
_PLACES: Final = (
    _Place("Lisbon", "LIS", "EU", "PT", "38.70", "-9.10", "1000", "11", "Europe/Lisbon", "1"),
    _Place("Berlin", "TXL", "EU", "DE", "52.52", "13.40", "10115", "BE", "Europe/Berlin", "1"),
    _Place("Ashburn", "IAD", "NA", "US", "39.04", "-77.49", "20147", "VA", "America/New_York", "0"),
    _Place("Singapore", "SIN", "AS", "SG", "1.35", "103.82", "049483", "01", "Asia/Singapore", "0"),
    _Place("São Paulo", "GRU", "SA", "BR", "-23.55", "-46.63", "01000", "SP", "America/Sao_Paulo", "0"),
)
_CONTENT_TYPES: Final = {".png": "image/png", ".pdf": "application/pdf", ".ico": "image/x-icon"}


def edge_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one gateway request; the project is the host, so its name also matches the request URL."""
    area = dice.choices(_AREAS, weights=_AREA_WEIGHTS)[0]
    method = dice.choice(area.methods)
    path, question_mark, search = dice.choice(area.targets).partition("?")
    host = f"{project}.example.com"
    url = f"https://{host}{path}{question_mark}{search}"
    status_code = int(pick(dice, _STATUS_CODES))
    address, ray, place = client_address(dice), hexadecimal(dice, 16), dice.choice(_PLACES)
    user_agent = dice.choice(USER_AGENTS)
    return {
        "event_message": f"{method} | {status_code} | {address} | {ray} | {url} | {user_agent}",
        "project": project,
        "metadata": {
            "logflare_worker": {"worker_id": hexadecimal(dice, 6).upper()},
            "request": {
                "method": method,
                "protocol": "https:",
                "host": host,
                "path": path,
                "search": question_mark + search,
                "url": url,
                "headers": {
                    "accept": "application/json",
                    "cf_connecting_ip": address,
                    "cf_ipcountry": place.country,
                    "cf_ray": ray,
                    "host": host,
                    "referer": dice.choice(REFERERS),
                    "user_agent": user_agent,
                    "x_forwarded_proto": "https",
                    "x_real_ip": address,
                },
                "cf": _connection(dice, place),
            },
            "response": {
                "status_code": status_code,
                "origin_time": milliseconds(dice, area.typical_milliseconds),
                "headers": {
                    "cf_cache_status": dice.choice(("DYNAMIC", "DYNAMIC", "MISS", "HIT")),
                    "cf_ray": f"{ray}-{place.colo}",
                    "content_length": str(dice.randrange(2, 40_000)),
                    "content_type": _CONTENT_TYPES.get(path[-4:], "application/json"),
                    "date": http_date(moment),
                    "sb_gateway_mode": "direct",
                    "sb_gateway_version": "1",
                },
            },
        },
    }


def _connection(dice: Random, place: _Place) -> Fields:
    trust = dice.randrange(1, 100)
    return {
        "asn": 64496 + dice.randrange(16),  # RFC 5398: numbers for documentation
        "asOrganization": "Example Net",
        "city": place.city,
        "clientAcceptEncoding": "gzip, br",
        "clientTrustScore": trust,
        "colo": place.colo,
        "continent": place.continent,
        "country": place.country,
        "edgeRequestKeepAliveStatus": 1,
        "httpProtocol": dice.choice(("HTTP/2", "HTTP/2", "HTTP/3", "HTTP/1.1")),
        "isEUCountry": place.is_eu_country,
        "latitude": place.latitude,
        "longitude": place.longitude,
        "postalCode": place.postal_code,
        "region": place.city,
        "regionCode": place.region_code,
        "timezone": place.timezone,
        "tlsCipher": "AEAD-AES256-GCM-SHA384",
        "tlsVersion": "TLSv1.3",
        "botManagement": {
            "corporateProxy": False,
            "ja3Hash": hexadecimal(dice, 32),
            "score": trust,
            "staticResource": False,
            "verifiedBot": dice.random() < 0.03,
        },
        "tlsClientAuth": {"certPresented": "0", "certRevoked": "0", "certVerified": "NONE"},
        "tlsExportedAuthenticator": {
            name: hexadecimal(dice, 64)
            for name in ("clientFinished", "clientHandshake", "serverFinished", "serverHandshake")
        },
    }
