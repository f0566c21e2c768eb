//! Holes in place of blocks of zeros, so that the zeros of a tool take no room on the disk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// The block size of most file systems.
const BLOCK_BYTES: usize = 4 << 10;

/// Leaves holes for blocks of zeros. Expects the position at the end; the size is right only after [`end`].
pub(super) fn append(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    let mut written = 0;
    // `rest` begins with `written` bytes that are no zeros.
    while let Some(block) = rest.get(written..written + BLOCK_BYTES) {
        if block.iter().any(|byte| *byte != 0) {
            written += BLOCK_BYTES;
            continue;
        }
        let (data, hole) = rest.split_at(written);
        file.write_all(data)?;
        file.seek(SeekFrom::Current(BLOCK_BYTES.cast_signed() as i64))?;
        (rest, written) = (hole.get(BLOCK_BYTES..).unwrap_or_default(), 0);
    }
    file.write_all(rest)
}

/// The file may end with a hole.
pub(super) fn end(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn blocks_of_zeros_become_holes_and_every_byte_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; 1 << 20];
        for at in [0, 5_000, 70_000, 70_001, 1 << 19, (1 << 20) - 5_000] {
            bytes[at] = 7;
        }
        for (number, chunk) in [1, 4_096, 10_000, 65_536, 1 << 20].into_iter().enumerate() {
            let path = folder.path().join(number.to_string());
            let file = File::create(&path).unwrap();
            bytes
                .chunks(chunk)
                .for_each(|chunk| append(&file, chunk).unwrap());
            end(&file, bytes.len() as u64).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes, "{chunk}");
            // A piece that is no multiple of a block shares blocks with its neighbours.
            if chunk % 4_096 == 0 {
                let on_disk = file.metadata().unwrap().blocks() * 512;
                assert!(on_disk < 256 << 10, "{chunk}: {on_disk} bytes");
            }
        }
    }
}
