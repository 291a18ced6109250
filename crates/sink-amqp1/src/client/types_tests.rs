//! Values as they are written and read, cut and damaged.

use super::*;

fn take(bytes: &[u8]) -> Result<WireValue, NotAmqp> {
    WireValue::take(&mut Bytes::copy_from_slice(bytes))
}

#[test]
fn what_is_written_is_read() {
    let mut out = BytesMut::new();
    list(&mut out, 0x10, |list| {
        let long = "x".repeat(300);
        list.text("a").text(&long).symbol("s").null().flag(true).flag(false).ubyte(7).ushort(700).uint(7);
        list.uint(70_000).timestamp(-1).binary(b"\0").symbols(&["p", "q"]).list(0x28, |inner| {
            inner.nulls(2).text("in");
        });
    });
    let mut bytes = out.freeze();
    let value = WireValue::take(&mut bytes).unwrap();
    assert!(bytes.is_empty());
    assert_eq!(value.descriptor, Some(0x10));
    let fields = value.fields().unwrap();
    let text = |place: usize| fields.get(place).and_then(WireValue::text);
    assert_eq!(
        (text(0).as_deref(), text(1).map(|long| long.len()), text(2).as_deref()),
        (Some("a"), Some(300), Some("s"))
    );
    assert!(fields.get(3).is_none() && fields.flag(4) && !fields.flag(5) && !fields.flag(3));
    assert_eq!([6, 7, 8, 9].map(|place| fields.uint(place)), [Some(7), Some(700), Some(7), Some(70_000)]);
    assert_eq!(fields.get(12).unwrap().symbols(), ["p", "q"]);
    let inner = fields.get(13).unwrap();
    assert_eq!(inner.descriptor, Some(0x28));
    assert_eq!(inner.fields().unwrap().get(2).and_then(WireValue::text).as_deref(), Some("in"));
    assert!(fields.get(14).is_none());
}

#[test]
fn the_entry_of_a_map_is_found() {
    let mut out = BytesMut::new();
    map(&mut out, 0x74, |map| {
        map.symbol("a").text("1").symbol("b").uint(2).symbol("c").text("3");
    });
    let value = take(&out).unwrap();
    let entries = ["a", "b", "c", "d"].map(|key| value.entry(key));
    assert_eq!(entries.each_ref().map(Option::as_deref), [Some("1"), None, Some("3"), None]);
    for cut in [&[0xc1, 1][..], &[0xc1, 1, 200], &[0xd1, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], &[0x45]] {
        assert!(take(cut).ok().and_then(|value| value.entry("a")).is_none(), "{cut:?}");
    }
}

#[test]
fn every_width_of_a_number_is_read() {
    let rows: [(&[u8], u64); 8] = [
        (&[0x43], 0),
        (&[0x44], 0),
        (&[0x50, 200], 200),
        (&[0x52, 200], 200),
        (&[0x53, 200], 200),
        (&[0x60, 1, 0], 256),
        (&[0x70, 0, 1, 0, 0], 65_536),
        (&[0x80, 0, 0, 0, 1, 0, 0, 0, 0], 1 << 32),
    ];
    for (bytes, number) in rows {
        assert_eq!(take(bytes).unwrap().number(), Some(number), "{bytes:?}");
    }
    assert_eq!(take(&[0x56, 1]).unwrap().flag(), Some(true));
    assert_eq!(take(&[0xa3, 1, b'x']).unwrap().symbols(), ["x"]);
}

#[test]
fn what_is_cut_or_of_no_type_is_refused() {
    let rows: [&[u8]; 9] = [
        &[],
        &[0x70, 0, 0],
        &[0xa1, 5, b'x'],
        &[0xb1, 0xff, 0xff, 0xff, 0xff],
        &[0x00],
        &[0x00, 0x53],
        &[0x00, 0x53, 0x10],
        &[0x00, 0x00, 0x53, 0x10, 0x45],
        &[0x13],
    ];
    for bytes in rows {
        assert!(take(bytes).is_err(), "{bytes:?}");
    }
    for list in [&[0xc0, 1, 200][..], &[0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], &[0xc0, 0], &[0xc0, 1, 1], &[0x40]] {
        assert!(take(list).and_then(|value| value.fields()).is_err(), "{list:?}");
    }
    assert!(take(&[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xb3]).unwrap().symbols().is_empty());
}
