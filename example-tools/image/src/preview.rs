//! The picture for the model: small enough for a message, and no larger than models look at.

use image::DynamicImage;
use toolcell_guest::{Content, ToolError, data};

use crate::{
    change,
    encode::{self, Format},
};

/// Maximum length of a side, in pixels.
const SIDE_MAX: u32 = 1024;
/// Length of a side, in pixels, that is never too large: its pixels take less than [`BYTES_MAX`].
const SIDE_MIN: u32 = 256;
/// Maximum size of the encoded picture, in bytes.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// The picture that was returned.
#[data]
pub(crate) struct Preview {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The size of the returned file, in bytes.
    pub(crate) bytes: u64,
}

pub(crate) fn of(picture: &DynamicImage) -> Result<(Preview, Content), ToolError> {
    let mut side = SIDE_MAX;
    loop {
        let small = in_8_bits(change::resize(picture, Some(side), Some(side), false)?.as_ref());
        let (media_type, bytes) = encoded(&small)?;
        if bytes.len() > BYTES_MAX && side > SIDE_MIN {
            side /= 2;
            continue;
        }
        let shown = Preview {
            width: small.width(),
            height: small.height(),
            bytes: bytes.len() as u64,
        };
        return Ok((shown, Content::image(media_type, &bytes)));
    }
}

fn in_8_bits(picture: &DynamicImage) -> DynamicImage {
    if picture.color().has_alpha() {
        picture.to_rgba8().into()
    } else {
        picture.to_rgb8().into()
    }
}

/// As PNG if that is smaller, as it is for drawings, or if parts are transparent.
fn encoded(picture: &DynamicImage) -> Result<(&'static str, Vec<u8>), ToolError> {
    let png = encode::encode(picture, Format::Png, None, None)?.bytes;
    if encode::has_transparency(picture) {
        return Ok(("image/png", png));
    }
    let jpeg = encode::encode(picture, Format::Jpeg, None, None)?.bytes;
    Ok(if png.len() <= jpeg.len() {
        ("image/png", png)
    } else {
        ("image/jpeg", jpeg)
    })
}
