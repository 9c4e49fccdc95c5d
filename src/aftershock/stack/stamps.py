"""Moments in text, moved in time.

A log line holds its moment several times and in several dialects: as the line's own time, in the text of a
database, in that of a proxy. `lift` takes out of a text every moment that lies within the recorded window
and leaves a mark with its distance from the window's end; `lower` writes the marks out again, in the same
dialect, for another end. What lies outside the window is not of the recording and stays as it is.
"""

import re
from datetime import UTC, datetime, timedelta

__all__ = ["lift", "lower"]

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CLOCK = rb"(\d\d):(\d\d):(\d\d)"
# Dialects: ISO 8601 and databases; nginx's errors; access logs; Kubernetes' own programs; seconds and
# nanoseconds since 1970.
ISO = re.compile(rb"(?<!\d)(\d{4})-(\d\d)-(\d\d)([T ])" + CLOCK + rb"([.,]\d{1,9})?")
SLASHES = re.compile(rb"(?<!\d)(\d{4})/(\d\d)/(\d\d)( )" + CLOCK + rb"()")
ACCESS = re.compile(rb"(?<!\d)(\d\d)/(" + "|".join(MONTHS).encode() + rb")/(\d{4}):" + CLOCK)
KLOG = re.compile(rb"(?<![A-Za-z0-9])([IWEF])(\d\d)(\d\d) " + CLOCK + rb"(\.\d{6})")
EPOCH = re.compile(rb"(?<![\d.])(\d{10})(\.\d{1,9})?(?![\d])")
NANOS = re.compile(rb"(?<![\d.])(\d{19})(?!\d)")
MARK = re.compile(rb"\x1e([a-zA-Z/ ]+)(-?\d+),(\d*),([.,]?)\x1e")
SLACK = 60.0


def _moment(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def lift(text: bytes, end: float, seconds: float) -> bytes:
    """The text with marks in place of all moments between `seconds` before `end` and a minute after it.

    >>> lift(b'{"ts":"2024-05-01T10:00:00.250Z"}', 1714557630.0, 900)
    b'{"ts":"\\x1eT-29750000000,3,.\\x1eZ"}'
    """
    this_year = datetime.fromtimestamp(end, UTC).year

    def mark(found: re.Match[bytes], kind: bytes, at: float | None, fraction: bytes = b"") -> bytes:
        if at is None or not end - seconds - SLACK <= at <= end + SLACK:
            return found.group()
        digits = fraction[1:]
        nanos = round((at - end) * 1_000_000) * 1000 + int(digits.ljust(9, b"0") or 0)
        return b"\x1e%b%d,%b,%b\x1e" % (kind, nanos, str(len(digits)).encode() if digits else b"", fraction[:1])

    def dated(found: re.Match[bytes]) -> bytes:
        year, month, day, gap, hour, minute, second, fraction = found.groups()
        at = _moment(int(year), int(month), int(day), int(hour), int(minute), int(second))
        return mark(found, gap if found.re is ISO else b"/", at, fraction or b"")

    def access(found: re.Match[bytes]) -> bytes:
        day, month, year, hour, minute, second = found.groups()
        at = _moment(int(year), MONTHS.index(month.decode()) + 1, int(day), int(hour), int(minute), int(second))
        return mark(found, b"a", at)

    def klog(found: re.Match[bytes]) -> bytes:
        level, month, day, hour, minute, second, fraction = found.groups()
        at = _moment(this_year, int(month), int(day), int(hour), int(minute), int(second))
        return mark(found, b"k" + level, at, fraction)

    def epoch(found: re.Match[bytes]) -> bytes:
        return mark(found, b"e", float(found.group(1)), found.group(2) or b"")

    def nanos(found: re.Match[bytes]) -> bytes:
        whole = int(found.group(1))
        if not end - seconds - SLACK <= whole / 1e9 <= end + SLACK:
            return found.group()
        return b"\x1en%d,,\x1e" % (whole - round(end * 1_000_000) * 1000)

    for pattern, change in (
        (NANOS, nanos), (ISO, dated), (SLASHES, dated), (ACCESS, access), (KLOG, klog), (EPOCH, epoch),
    ):  # fmt: skip
        text = pattern.sub(change, text)
    return text


def lower(text: bytes, end: float) -> bytes:
    """The text with its moments written out again, for another end of the window.

    >>> lower(lift(b"at 2024-05-01 10:00:00,5 UTC", 1714557630.0, 900), 1714557630.0 + 86400)
    b'at 2024-05-02 10:00:00,5 UTC'
    """
    base = round(end * 1_000_000) * 1000
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    days: dict[tuple[bytes, int], bytes] = {}

    def write(found: re.Match[bytes]) -> bytes:
        kind, offset, width, point = found.groups()
        at = base + int(offset)
        if kind == b"n":
            return b"%d" % at
        second, rest = divmod(at, 1_000_000_000)
        fraction = point + b"%09d" % rest if width else b""
        fraction = fraction[: int(width) + 1] if width else b""
        key = (kind, second)
        if key not in days:
            days[key] = _shown(kind, second, zero + timedelta(seconds=second))
        return days[key] + fraction

    return MARK.sub(write, text)


def _shown(kind: bytes, second: int, at: datetime) -> bytes:
    if kind == b"e":
        return b"%d" % second
    if kind == b"a":
        return f"{at.day:02}/{MONTHS[at.month - 1]}/{at.year}:{at:%H:%M:%S}".encode()
    if kind[:1] == b"k":
        return kind[1:] + f"{at:%m%d %H:%M:%S}".encode()
    if kind == b"/":
        return f"{at:%Y/%m/%d %H:%M:%S}".encode()
    return f"{at:%Y-%m-%d}".encode() + kind + f"{at:%H:%M:%S}".encode()
