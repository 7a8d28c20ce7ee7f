"""By which names this server may be called, and which web pages may call it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from canopy_rag.config import ServerConfig
from canopy_rag.core.errors import ConfigError


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def check_bind(config: ServerConfig, *, has_key: bool) -> None:
    """Refuse to listen where strangers can ask without a key.

    Raises:
        ConfigError: If others can reach the address, there is no key, and that was not asked for.
    """
    if has_key or config.allow_public or is_loopback(config.host):
        return
    raise ConfigError(
        f"{config.host} can be reached from other machines, and there is no key: whoever reaches "
        "it could read all of the index. Set CANOPY_SERVER_API_KEY, listen on 127.0.0.1, or give "
        "--allow-public if something in front of it asks for a key"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Decides about the headers `Host`, `Origin` and `Sec-Fetch-Site`.

    A page of another site that makes a name of its own lead to this address (DNS rebinding) sends
    that name as host; a page that sends requests here from elsewhere (CSRF) sends its origin.
    """

    hosts: frozenset[str]
    """Names without port, lower case."""
    origins: frozenset[str]
    """Origins of other pages that may call, such as `https://example.org`."""
    any_name: bool
    """Take any host: a key is asked for, and the address is public."""
    any_address: bool
    """Take any IP address as host: no name of a stranger leads to a wrong one."""

    @classmethod
    def of(cls, config: ServerConfig, *, has_key: bool) -> Callers:
        """Return the rules of a server.

        Raises:
            ConfigError: If an origin is none.
        """
        public = not is_loopback(config.host)
        named = _listed(config.allow_hosts)
        own = {config.host.lower()} if not public else set()
        return cls(
            hosts=frozenset({"localhost", "127.0.0.1", "::1", *own, *named}),
            origins=frozenset(_origin(each) for each in _listed(config.allow_origins)),
            any_name=public and has_key and not named,
            any_address=public,
        )

    def takes_host(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        name, valid = _split(host)
        if not valid:
            return False
        return (
            self.any_name or name in self.hosts or (self.any_address and _address(name) is not None)
        )

    def takes_origin(self, origin: str, host: str) -> bool:
        """Whether an `Origin` header is that of the server's own page, or of an allowed one."""
        if origin.lower() in self.origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:  # a bracket that does not close
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _split(host: str) -> tuple[str, bool]:
    """Return the name in a `Host` header, and whether the header is well-formed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return "", False
    plain = parts.netloc == host and "@" not in host and not any(c in host for c in "/?#\\ ")
    return (parts.hostname or "").rstrip("."), plain and bool(parts.hostname)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _listed(names: str | None) -> Sequence[str]:
    return [name.strip().lower() for name in (names or "").split(",") if name.strip()]


def _origin(given: str) -> str:
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise ConfigError(f"{given!r} is no origin; give one like https://example.org")
    return f"{parts.scheme}://{parts.netloc}"
