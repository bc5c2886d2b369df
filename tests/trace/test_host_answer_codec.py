"""Answers of the host: they come back from a trace unchanged, and other bytes are refused."""

import contextlib
import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.evidence import KINDS, TraceContext

from bursar import TraceError
from bursar.trace.host_answer_codec import pack_answer, unpack_answer

answers = st.none() | st.integers() | st.binary() | st.text(st.characters(exclude_categories=["Cs"]))


@given(st.text("abc_", min_size=1), answers)
def test_an_answer_comes_back_as_it_was(what, answer):
    assert unpack_answer(pack_answer(what, answer)) == (what, answer)


def test_undecodable_text_comes_back_as_it_was():
    assert unpack_answer(pack_answer("name", "a\udc80")) == ("name", "a\udc80")


def test_an_error_comes_back_as_its_number_says():
    what, error = unpack_answer(pack_answer("connect", ConnectionRefusedError(111, "Connection refused: really")))
    assert (what, type(error), error.errno, error.strerror) == (
        "connect",
        ConnectionRefusedError,
        111,
        "Connection refused: really",
    )
    _, plain = unpack_answer(pack_answer("connect", OSError("no number")))
    assert (type(plain), plain.strerror) == (OSError, "no number")


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(-2, "Name or service not known"),
        ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_whose_number_is_of_another_kind_comes_back_as_its_class_says(error):
    _, again = unpack_answer(pack_answer("handshake", error))
    assert (type(again), again.errno, str(again)) == (type(error), error.errno, str(error))


@pytest.mark.parametrize("name", ["SSLSocket", "SSLContext", "SSLnone", "Exit"])
def test_the_class_of_an_error_is_one_of_the_system_s_whatever_the_name_says(name):
    _, error = unpack_answer(b"a\0e5:%s:told" % name.encode())
    assert (type(error), error.errno) == (OSError, 5)


def test_an_answer_that_cannot_be_written_down_is_refused():
    with pytest.raises(TypeError, match=r"clock answered 1\.5, which cannot be recorded"):
        pack_answer("clock", 1.5)


@pytest.mark.parametrize(
    "packed",
    [b"", b"no zero", b"a\0", b"a\0x", b"a\0nbody", b"a\0ix", b"a\0e1:2", b"a\0ex:y:z", b"\xff\0n", b"a\0e\xff:a:b"],
)
def test_what_is_no_answer_is_refused(packed):
    with pytest.raises(TraceError, match="is not an answer of a host"):
        unpack_answer(packed)


@given(st.binary())
def test_any_bytes_are_an_answer_or_a_trace_error(packed):
    with contextlib.suppress(TraceError):  # and nothing else
        what, answer = unpack_answer(packed)
        assert type(what) is str
        assert answer is None or isinstance(answer, int | bytes | str | OSError)


def test_a_failed_answer_of_the_host_carries_its_class():
    kind = KINDS["host_answer"]
    for answer, name in ((b"\0e1:2:3", ""), (ConnectionRefusedError(111, "no"), "ConnectionRefusedError"), (5, "")):
        packed = pack_answer("connect", answer)
        assert TraceContext().event(kind, (1,), packed).error_class == name
