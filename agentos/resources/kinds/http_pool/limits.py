"""Bounds of talking over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One set for each pool; the option `timeouts` of a model changes single ones of its own.

    connect_s: for a connection. write_s: for a piece of the request to be taken. idle_s: between two pieces of a stream;
    some models think for minutes without a word. tail_s: for what comes after the reason of the finish, the usage and the
    end of the stream. whole_s: for an answer that comes in one piece. pool_s: for one of the
    connections_max connections to come free, host_connections_max of them to one host; keepalive_max stay open for
    keepalive_s without work.
    response_bytes_max bounds an answer after it is unpacked, error_bytes_max what is read of one that is an error.
    """

    connect_s: Seconds = 15.0
    write_s: Seconds = 60.0
    idle_s: Seconds = 300.0
    tail_s: Seconds = 5.0
    whole_s: Seconds = 600.0
    pool_s: Seconds = 60.0
    connections_max: Count = 1_000
    host_connections_max: Count = 1_000
    keepalive_max: Count = 100
    keepalive_s: Seconds = 90.0
    response_bytes_max: Count = 64 * 1024 * 1024
    error_bytes_max: Count = 64 * 1024
