//! Cropping, turning and resizing, in this order.

use std::borrow::Cow;

use image::{DynamicImage, imageops::FilterType};
use toolcell_guest::{ToolError, data};

use crate::{Convert, source::PIXEL_BYTES_MAX};

/// A part of a picture, in pixels from its upper left corner.
#[data]
#[derive(Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x: u32,
    pub(crate) y: u32,
    #[schemars(range(min = 1))]
    pub(crate) width: u32,
    #[schemars(range(min = 1))]
    pub(crate) height: u32,
}

pub(crate) fn apply(picture: DynamicImage, input: &Convert) -> Result<DynamicImage, ToolError> {
    let picture = match input.crop {
        Some(area) => crop(picture, area)?,
        None => picture,
    };
    // A quarter turn swaps the sides of the box. The smaller picture is turned, because that copies fewer pixels.
    let (max_width, max_height) = match input.rotate {
        Some(90 | 270) => (input.max_height, input.max_width),
        _ => (input.max_width, input.max_height),
    };
    let picture = match resize(&picture, max_width, max_height, input.enlarge)? {
        Cow::Owned(resized) => resized,
        Cow::Borrowed(_) => picture,
    };
    Ok(match input.rotate {
        Some(90) => picture.rotate90(),
        Some(180) => picture.rotate180(),
        Some(270) => picture.rotate270(),
        _ => picture,
    })
}

fn crop(picture: DynamicImage, area: Area) -> Result<DynamicImage, ToolError> {
    let ends = |start: u32, length: u32, max: u32| {
        length > 0 && u64::from(start) + u64::from(length) <= u64::from(max)
    };
    let (width, height) = (picture.width(), picture.height());
    if !ends(area.x, area.width, width) || !ends(area.y, area.height, height) {
        let message = format!(
            "crop: {} x {} pixels at ({}, {}) are not inside the picture of {width} x {height} pixels",
            area.width, area.height, area.x, area.y
        );
        return Err(ToolError::invalid_arguments("crop_outside", message));
    }
    Ok(picture.crop_imm(area.x, area.y, area.width, area.height))
}

/// Fits the picture into a box. `None` is no limit.
pub(crate) fn resize(
    picture: &DynamicImage,
    max_width: Option<u32>,
    max_height: Option<u32>,
    enlarge: bool,
) -> Result<Cow<'_, DynamicImage>, ToolError> {
    let (width, height) = (picture.width(), picture.height());
    let ratio = |max: Option<u32>, now: u32| max.map(|max| f64::from(max) / f64::from(now));
    let Some(scale) = [ratio(max_width, width), ratio(max_height, height)]
        .into_iter()
        .flatten()
        .min_by(f64::total_cmp)
        .filter(|scale| *scale < 1.0 || (enlarge && *scale > 1.0))
    else {
        return Ok(Cow::Borrowed(picture));
    };
    let scaled = |now: u32| (f64::from(now) * scale).round().max(1.0);
    let (wide, high) = (scaled(width), scaled(height));
    let pixel = f64::from(picture.color().bytes_per_pixel());
    if wide * high * pixel > PIXEL_BYTES_MAX as f64 {
        let message = format!(
            "{wide} x {high} pixels take more than {} MiB: choose a smaller size",
            PIXEL_BYTES_MAX >> 20
        );
        return Err(ToolError::result_too_large("picture_too_large", message));
    }
    // In range: at most 16,384, or bounded by the check above.
    Ok(Cow::Owned(scale_to(picture, wide as u32, high as u32)))
}

fn scale_to(picture: &DynamicImage, width: u32, height: u32) -> DynamicImage {
    if !picture.color().has_alpha() {
        return resample(picture, width, height);
    }
    // Colors of transparent pixels must not bleed into the edges.
    let mut picture = picture.clone();
    premultiply(&mut picture);
    let mut scaled = resample(&picture, width, height);
    unmultiply(&mut scaled);
    scaled
}

fn resample(picture: &DynamicImage, width: u32, height: u32) -> DynamicImage {
    // A filter reads each pixel many times: plain averages first are several times faster for a large picture.
    let averaged = (picture.width() / 4 >= width && picture.height() / 4 >= height)
        .then(|| picture.thumbnail_exact(width * 2, height * 2));
    averaged
        .as_ref()
        .unwrap_or(picture)
        .resize_exact(width, height, FilterType::Lanczos3)
}

/// Multiplies colors by their opacity.
fn premultiply(picture: &mut DynamicImage) {
    each_color(picture, |color, alpha, max| (color * alpha + max / 2) / max);
}

fn unmultiply(picture: &mut DynamicImage) {
    each_color(picture, |color, alpha, max| {
        let color = (color * max + alpha / 2).checked_div(alpha);
        color.unwrap_or(0).min(max)
    });
}

/// Maps each color of a picture with opacities: `map` gets the color, the opacity and their maximum.
fn each_color(picture: &mut DynamicImage, map: impl Fn(u64, u64, u64) -> u64) {
    match picture {
        DynamicImage::ImageLumaA8(pixels) => each_of::<u8, 2>(pixels, map),
        DynamicImage::ImageRgba8(pixels) => each_of::<u8, 4>(pixels, map),
        DynamicImage::ImageLumaA16(pixels) => each_of::<u16, 2>(pixels, map),
        DynamicImage::ImageRgba16(pixels) => each_of::<u16, 4>(pixels, map),
        // No format that is read has others.
        _ => {}
    }
}

fn each_of<S, const CHANNELS: usize>(samples: &mut [S], map: impl Fn(u64, u64, u64) -> u64)
where
    S: Copy + Into<u64> + TryFrom<u64> + Bounded,
{
    for pixel in samples.chunks_exact_mut(CHANNELS) {
        if let Some((alpha, colors)) = pixel.split_last_mut() {
            for color in colors {
                let mapped = map((*color).into(), (*alpha).into(), S::MAX.into());
                *color = S::try_from(mapped).unwrap_or(S::MAX);
            }
        }
    }
}

trait Bounded {
    const MAX: Self;
}

impl Bounded for u8 {
    const MAX: Self = u8::MAX;
}

impl Bounded for u16 {
    const MAX: Self = u16::MAX;
}
