"""What is issued, when it has to be issued anew, and that a real TLS handshake takes it."""

import asyncio
import datetime
import importlib
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("cryptography")

from cryptography import x509

NAMES = ["market.example", "admin.market.example"]


@pytest.fixture
def authority() -> Iterator[ModuleType]:
    folder = str(Path(__file__).parents[1] / "src")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("authority")
    finally:
        sys.path.remove(folder)
        sys.modules.pop("authority", None)


def test_a_fresh_certificate_needs_no_renewal(authority: ModuleType) -> None:
    above = authority.new_authority("Test CA", 3650)
    pair = authority.issue(above, NAMES, 90)
    assert authority.why_renew(pair, above, NAMES, 30) == ""
    left = authority.not_after(pair.certificate) - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=89, hours=23) < left <= datetime.timedelta(days=90)


def test_reasons_to_renew(authority: ModuleType) -> None:
    above, other = (authority.new_authority("Test CA", 3650) for _ in range(2))
    pair = authority.issue(above, NAMES, 90)
    assert authority.why_renew(authority.issue(above, NAMES, 29), above, NAMES, 30).startswith("it ends in ")
    assert authority.why_renew(pair, other, NAMES, 30) == "the authority is another"
    assert authority.why_renew(pair, above, [*NAMES, "www.market.example"], 30) == "its names have changed"
    assert authority.why_renew(pair, above, NAMES[::-1], 30) == ""
    assert authority.why_renew(authority.Pair(pair.certificate, other.key), above, NAMES, 30) == "its key is another's"
    assert authority.why_renew(authority.Pair(b"nonsense", pair.key), above, NAMES, 30) == "it cannot be read"


def test_no_certificate_outlives_its_authority(authority: ModuleType) -> None:
    above = authority.new_authority("Test CA", 10)
    pair = authority.issue(above, NAMES, 90)
    assert (
        authority.not_after(pair.certificate) == x509.load_pem_x509_certificate(above.certificate).not_valid_after_utc
    )


async def test_a_handshake_takes_it(authority: ModuleType, tmp_path: Path) -> None:
    above = authority.new_authority("Test CA", 30)
    pair = authority.issue(above, NAMES, 10)
    for name, data in (("ca.crt", above.certificate), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (tmp_path / name).write_bytes(data)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    asking = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    async with server:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=asking, server_hostname="admin.market.example"
        )
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=asking, server_hostname="other.example")
