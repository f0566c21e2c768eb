//! Files that a component carries: loading it unpacks an archive or refuses it, and is never a fault of the host.

use std::sync::{Arc, OnceLock};

use crate::shared::{host, runtime};
use arbitrary::{Result, Unstructured};
use toolcell::Host;
use toolcell_spec::dialect::sections::with_custom;
use toolcell_spec::dialect::wrapping::FILES_SECTION;

const EMPTY: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
const ENTRIES_MAX: u16 = 32;

fn parts() -> &'static (tokio::runtime::Runtime, Arc<Host>) {
    static PARTS: OnceLock<(tokio::runtime::Runtime, Arc<Host>)> = OnceLock::new();
    PARTS.get_or_init(|| (runtime(), host()))
}

pub(crate) fn run(data: &[u8]) {
    let Ok(archive) = archive(&mut Unstructured::new(data)) else {
        return;
    };
    let name = format!("{FILES_SECTION}/data");
    let component = with_custom(&EMPTY, &name, &archive).expect("a component gets a section");
    let (runtime, host) = parts();
    if let Err(refusal) = runtime.block_on(host.load(&component)) {
        assert_ne!(refusal.code, toolcell::ErrorCode::HostFault, "{refusal:?}");
    }
}

/// A ZIP archive whose headers say what `input` wants.
fn archive(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    let mut directory = Vec::new();
    let mut count = 0_u16;
    while count < ENTRIES_MAX && !input.is_empty() {
        let name = text(input)?;
        let content = text(input)?;
        // Most are what they say.
        let size = match input.ratio(1, 8)? {
            true => input.arbitrary()?,
            false => u32::try_from(content.len()).unwrap_or(u32::MAX),
        };
        let method = *input.choose(&[0_u16, 0, 0, 8, 12])?;
        let mode =
            *input.choose(&[0o100_644_u32, 0o100_755, 0o040_755, 0o120_777, 0o010_644, 0])?;
        let sizes = [
            crc32fast::hash(content),
            u32::try_from(content.len()).unwrap_or(0),
            size,
        ];
        let place = u32::try_from(files.len()).unwrap_or(u32::MAX);
        let head = common(method, sizes, name.len());
        files.extend([&b"PK\x03\x04"[..], &head, name, content].concat());
        let attributes = (mode << 16).to_le_bytes();
        // Made on Unix; no comment, on the first disk.
        let made = [20, 3];
        directory.extend(
            [
                b"PK\x01\x02",
                &made[..],
                &head,
                &[0; 6],
                &attributes,
                &place.to_le_bytes(),
                name,
            ]
            .concat(),
        );
        count += 1;
    }
    let count = count.to_le_bytes();
    let length = u32::try_from(directory.len())
        .unwrap_or(u32::MAX)
        .to_le_bytes();
    let place = u32::try_from(files.len()).unwrap_or(u32::MAX).to_le_bytes();
    let end = [
        &b"PK\x05\x06"[..],
        &[0; 4],
        &count,
        &count,
        &length,
        &place,
        &[0; 2],
    ]
    .concat();
    Ok([files, directory, end].concat())
}

fn text<'a>(input: &mut Unstructured<'a>) -> Result<&'a [u8]> {
    let length = input.int_in_range(0..=32_usize)?.min(input.len());
    input.bytes(length)
}

/// What both headers of an entry have: version, flags, method, time, check sum, sizes, and lengths of the name and of no
/// extra field.
fn common(method: u16, sizes: [u32; 3], name: usize) -> Vec<u8> {
    let mut head = vec![20, 0, 0, 0];
    head.extend(method.to_le_bytes());
    head.extend([0; 4]);
    head.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
    head.extend(u16::try_from(name).unwrap_or(0).to_le_bytes());
    head.extend([0; 2]);
    head
}
