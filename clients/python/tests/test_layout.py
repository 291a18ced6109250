import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from delaybridge import Layout
from delaybridge._layout import Keys, due_ms, encoder, given_id, milliseconds, new_id, pack, parse_handle, payload_of

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "tests" / "vectors" / "redisson.jsonl"


def test_names_map_as_redisson_maps_them():
    for name, tagged in [
        ("orders", "{orders}"),
        ("app:orders", "{app:orders}"),
        ("{app}:orders", "{app}:orders"),
        ("app:{orders}:q", "app:{orders}:q"),
        ("a{b", "a{b"),
    ]:
        keys = Keys.of(name)
        assert keys.delayed == "redisson_delay_queue_timeout:" + tagged
        assert keys.list == "redisson_delay_queue:" + tagged
        assert keys.channel == "redisson_delay_queue_channel:" + tagged


def test_recorded_elements_of_redisson_are_packed_to_the_same_bytes():
    seen = 0
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        member = bytes.fromhex(vector["member_hex"])
        layout = Layout.OLD if vector["layout"] == "dLc0" else Layout.CURRENT
        header = 16 if layout is Layout.OLD else 17
        payload = payload_of(member)
        assert payload == member[header:]
        assert pack(layout, member[header - 16 : header - 8], payload) == member
        if vector["codec"] == "StringCodec" and vector["value_class"] == "java.lang.String":
            assert encoder("string")(vector["value"]) == payload, vector
            seen += 1
        if vector["codec"] == "TypedJsonJacksonCodec" and vector["value_class"] == "java.lang.String":
            assert json.loads(encoder("json")(vector["value"])) == json.loads(payload), vector
            seen += 1
    assert seen > 50


def test_other_bytes_are_no_element():
    element = pack(Layout.CURRENT, b"RANDOM8B", b"hello")
    assert payload_of(element) == b"hello"
    for junk in (b"", b"\x08", element + b"\0", element[:-1], bytes(range(1, 9)) + b"\xff" * 8):
        assert payload_of(junk) is None


def test_the_shape_that_fits_both_layouts_is_never_made():
    assert payload_of(bytes.fromhex("0841414141414141010000000000000000")) == b""
    assert payload_of(bytes.fromhex("0841414141414143010000000000000000")) == b"\0"
    with pytest.raises(ValueError, match="choose another"):
        given_id("4141414141414301", Layout.CURRENT, b"")
    given_id("4141414141414301", Layout.CURRENT, b"x")
    assert all(new_id(Layout.OLD)[7] in (0x43, 0xC3) for _ in range(1000))


def test_delays_are_rounded_up_and_due_times_to_the_millisecond():
    assert milliseconds(0.1) == 100
    assert milliseconds(0.0001) == 1
    assert milliseconds(timedelta(microseconds=1)) == 1
    assert milliseconds(timedelta(hours=1)) == 3_600_000
    assert due_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)) == 1000
    assert due_ms(datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=timezone.utc)) == 1001
    for wrong in (-1, float("nan"), float("inf"), timedelta(seconds=-1)):
        with pytest.raises(ValueError):
            milliseconds(wrong)
    for wrong in (-1, 2**53 + 1, datetime(2027, 1, 1)):
        with pytest.raises(ValueError):
            due_ms(wrong)


def test_text_without_a_utf8_form_is_refused():
    for codec in ("string", "json"):
        with pytest.raises(UnicodeEncodeError):
            encoder(codec)("\ud800")


def test_a_handle_of_somebody_else_is_refused():
    assert parse_handle("52414e444f4d3842-7") == (b"RANDOM8B", 7)
    for wrong in ("", "x", "52414e444f4d3842", "52414e444f4d-7", "52414e444f4d3842-x"):
        with pytest.raises(ValueError, match="not one that an offer returned"):
            parse_handle(wrong)


def test_the_scripts_are_those_of_the_project():
    for script in ("offer.lua", "change.lua"):
        copy = Path(__file__).parents[1] / "src" / "delaybridge" / "lua" / script
        assert copy.read_bytes() == (ROOT / "clients" / "lua" / script).read_bytes()
