use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use image::{DynamicImage, ImageEncoder, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use toolcell_guest::{
    Outcome, Output, ToolError,
    cancellation::AbortReason,
    serde_json::{Value, json},
    testing,
};

use crate::Toolkit;

/// A temporary folder for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("toolcell-image-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn picture(&self, name: &str, picture: impl Into<DynamicImage>) -> String {
        picture.into().save(self.path(name)).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn output(tool: &str, input: Value) -> Result<Output<Value>, ToolError> {
    testing::validate::<Toolkit>(tool, input.clone())?;
    match testing::invoke::<Toolkit>(tool, input) {
        Outcome::Success(output) => Ok(output),
        Outcome::Failure(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn answer(tool: &str, input: Value) -> Result<Value, ToolError> {
    output(tool, input).map(|output| output.structured.unwrap())
}

fn code(tool: &str, input: Value) -> String {
    answer(tool, input).unwrap_err().code
}

/// Four colors, one in each quarter: red and green above blue and white.
fn quarters(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        match (x * 2 < width, y * 2 < height) {
            (true, true) => Rgb([255, 0, 0]),
            (false, true) => Rgb([0, 255, 0]),
            (true, false) => Rgb([0, 0, 255]),
            (false, false) => Rgb([255, 255, 255]),
        }
    })
}

/// Raw EXIF data with an orientation, a maker and a time.
fn exif(orientation: u8) -> Vec<u8> {
    let mut raw = b"II*\0\x08\0\0\0\x03\0".to_vec();
    let entry = |tag: u16, kind: u16, count: u32, value: u32| {
        let mut entry = [tag.to_le_bytes(), kind.to_le_bytes()].concat();
        entry.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
        entry
    };
    raw.extend(entry(0x010f, 2, 6, 50));
    raw.extend(entry(0x0112, 3, 1, orientation.into()));
    raw.extend(entry(0x0132, 2, 20, 56));
    raw.extend([0; 4]);
    raw.extend(b"Ca\x07m!\0");
    raw.extend(b"2026:05:01 18:30:00\0");
    raw
}

fn jpeg_with_exif(picture: &RgbImage, raw: Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut bytes, 95);
    encoder.set_exif_metadata(raw).unwrap();
    picture.write_with_encoder(encoder).unwrap();
    bytes
}

/// The beginning of a PNG file with such a header.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([8, 6, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for chunk in [header, b"IDAT\x78\x9c\x63\0".to_vec()] {
        png.extend((chunk.len() as u32 - 4).to_be_bytes());
        png.extend(&chunk);
        png.extend(crc(&chunk).to_be_bytes());
    }
    png
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn info_tells_the_format_by_the_bytes_and_not_by_the_name() {
    let folder = Folder::new();
    for (format, name, color, bits) in [
        (ImageFormat::Png, "png", "rgb", 8),
        (ImageFormat::Jpeg, "jpeg", "rgb", 8),
        (ImageFormat::Gif, "gif", "rgb", 8),
        (ImageFormat::WebP, "webp", "rgb", 8),
        (ImageFormat::Bmp, "bmp", "rgb", 8),
    ] {
        let path = folder.path("picture.dat");
        DynamicImage::from(quarters(6, 4))
            .save_with_format(&path, format)
            .unwrap();
        let facts = answer("info", json!({ "path": path })).unwrap();
        assert_eq!(
            (&facts["format"], &facts["width"], &facts["height"]),
            (&json!(name), &json!(6), &json!(4))
        );
        assert_eq!(
            (&facts["color"], &facts["bits_per_channel"]),
            (&json!(color), &json!(bits)),
            "{name}"
        );
        assert_eq!(facts["bytes"], fs::metadata(&path).unwrap().len());
        assert_eq!(facts["animated"], false);
    }
}

#[test]
fn info_reads_exif_and_sizes_are_those_of_the_upright_picture() {
    let folder = Folder::new();
    let path = folder.file("a.jpg", jpeg_with_exif(&quarters(32, 16), exif(6)));
    let output = output("info", json!({ "path": path })).unwrap();
    let facts = output.structured.unwrap();
    assert_eq!(
        (&facts["orientation"], &facts["width"], &facts["height"]),
        (&json!(6), &json!(16), &json!(32))
    );
    assert_eq!(
        facts["exif"],
        json!({"make": "Cam!", "taken": "2026-05-01T18:30:00", "has_location": false})
    );
    let text = output.content[0].get("text").unwrap().as_str().unwrap();
    assert!(text.contains("EXIF: Cam!, 2026-05-01T18:30:00"), "{text}");
}

#[test]
fn damaged_exif_does_not_hide_the_rest() {
    let folder = Folder::new();
    let path = folder.file(
        "a.jpg",
        jpeg_with_exif(&quarters(8, 8), b"II*\0\xff\xff\xff\xff".to_vec()),
    );
    let facts = answer("info", json!({ "path": path })).unwrap();
    assert_eq!((&facts["width"], facts.get("exif")), (&json!(8), None));
}

#[test]
fn convert_makes_the_picture_upright_and_drops_its_metadata() {
    let folder = Folder::new();
    let path = folder.file("a.jpg", jpeg_with_exif(&quarters(32, 16), exif(6)));
    let save_to = folder.path("b.png");
    answer("convert", json!({"path": path, "save_to": save_to})).unwrap();
    let upright = image::open(&save_to).unwrap().to_rgb8();
    assert_eq!(upright.dimensions(), (16, 32));
    // A quarter turn clockwise brings the lower left corner to the upper left: blue.
    assert!(upright.get_pixel(1, 1).0[2] > 200 && upright.get_pixel(1, 1).0[0] < 60);
    let facts = answer("info", json!({ "path": save_to })).unwrap();
    assert_eq!((facts.get("exif"), facts.get("orientation")), (None, None));
}

#[test]
fn a_picture_is_cropped_then_turned_then_fit_into_the_box() {
    let folder = Folder::new();
    let path = folder.picture("a.png", quarters(40, 20));
    let save_to = folder.path("b.png");
    let done = answer(
        "convert",
        json!({
            "path": path, "save_to": save_to, "crop": {"x": 0, "y": 0, "width": 20, "height": 20},
            "rotate": 90, "max_width": 10, "max_height": 100
        }),
    )
    .unwrap();
    assert_eq!((&done["width"], &done["height"]), (&json!(10), &json!(10)));
    let small = image::open(&save_to).unwrap().to_rgb8();
    assert_eq!(small.get_pixel(1, 1), &Rgb([0, 0, 255]));
    assert_eq!(small.get_pixel(8, 1), &Rgb([255, 0, 0]));
}

#[test]
fn proportions_are_kept_and_small_pictures_grow_only_if_asked() {
    let folder = Folder::new();
    let path = folder.picture("a.png", quarters(400, 100));
    let size = |name: &str, more: Value| {
        let mut input = json!({"path": path, "save_to": folder.path(name)});
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        let done = answer("convert", input).unwrap();
        (
            done["width"].as_u64().unwrap(),
            done["height"].as_u64().unwrap(),
        )
    };
    assert_eq!(size("1.png", json!({"max_width": 100})), (100, 25));
    assert_eq!(
        size("2.png", json!({"max_width": 300, "max_height": 10})),
        (40, 10)
    );
    assert_eq!(size("3.png", json!({"max_width": 800})), (400, 100));
    assert_eq!(
        size("4.png", json!({"max_width": 800, "enlarge": true})),
        (800, 200)
    );
    assert_eq!(size("5.png", json!({"max_width": 1})), (1, 1));
    assert_eq!(
        size("6.png", json!({"max_height": 40, "rotate": 270})),
        (10, 40)
    );
}

#[test]
fn each_format_can_be_written_and_read_again() {
    let folder = Folder::new();
    let path = folder.picture("a.png", quarters(20, 20));
    for (name, format) in [
        ("b.png", "png"),
        ("b.JPG", "jpeg"),
        ("b.webp", "webp"),
        ("b.gif", "gif"),
    ] {
        let save_to = folder.path(name);
        answer("convert", json!({"path": path, "save_to": save_to})).unwrap();
        let facts = answer("info", json!({ "path": save_to })).unwrap();
        assert_eq!(
            (&facts["format"], &facts["width"]),
            (&json!(format), &json!(20))
        );
        let picture = image::load_from_memory(&fs::read(&save_to).unwrap()).unwrap();
        let red = picture.to_rgb8().get_pixel(2, 2).0;
        assert!(red[0] > 230 && red[1] < 30, "{name}: {red:?}");
    }
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        5,
        "no drafts stay"
    );
}

#[test]
fn quality_changes_the_size_of_a_jpeg_and_is_refused_elsewhere() {
    let folder = Folder::new();
    let noise = RgbImage::from_fn(64, 64, |x, y| {
        Rgb([(x * 37 + y * 91) as u8, (x * y) as u8, (x ^ y) as u8])
    });
    let path = folder.picture("a.png", noise);
    let bytes = |name: &str, quality: u8| {
        let save_to = folder.path(name);
        let input = json!({"path": path, "save_to": save_to, "quality": quality});
        answer("convert", input).unwrap()["bytes"].as_u64().unwrap()
    };
    assert!(bytes("1.jpg", 20) < bytes("2.jpg", 95));
    let input = json!({"path": path, "save_to": folder.path("3.png"), "quality": 20});
    assert_eq!(code("convert", input), "quality_not_for_format");
}

#[test]
fn transparent_parts_become_white_in_a_jpeg_and_bleed_into_no_edge() {
    let folder = Folder::new();
    let half = RgbaImage::from_fn(64, 64, |x, _| {
        if x < 32 {
            Rgba([0, 0, 0, 0])
        } else {
            Rgba([255, 0, 0, 255])
        }
    });
    let path = folder.picture("a.png", half);
    let done = answer(
        "convert",
        json!({"path": path, "save_to": folder.path("b.jpg")}),
    )
    .unwrap();
    assert!(done["notes"][0].as_str().unwrap().contains("became white"));
    let jpeg = image::open(folder.path("b.jpg")).unwrap().to_rgb8();
    assert!(jpeg.get_pixel(4, 4).0.iter().all(|color| *color > 250));
    answer(
        "convert",
        json!({"path": path, "save_to": folder.path("c.png"), "max_width": 21}),
    )
    .unwrap();
    let small = image::open(folder.path("c.png")).unwrap().to_rgba8();
    for pixel in small.pixels().filter(|pixel| pixel.0[3] > 32) {
        assert!(pixel.0[0] > 240, "no black in red: {pixel:?}");
    }
}

#[test]
fn only_the_first_frame_of_an_animation_is_taken_and_the_answer_says_so() {
    let folder = Folder::new();
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut bytes);
    let frames = [[255, 0, 0, 255], [0, 255, 0, 255]]
        .map(|color| image::Frame::new(RgbaImage::from_pixel(4, 4, Rgba(color))));
    encoder.encode_frames(frames).unwrap();
    drop(encoder);
    let path = folder.file("a.gif", bytes);
    assert_eq!(
        answer("info", json!({ "path": path })).unwrap()["animated"],
        true
    );
    let save_to = folder.path("b.png");
    let done = answer("convert", json!({"path": path, "save_to": save_to})).unwrap();
    assert!(done["notes"][0].as_str().unwrap().contains("first frame"));
    let first = image::open(&save_to).unwrap().to_rgb8();
    assert_eq!(first.get_pixel(0, 0), &Rgb([255, 0, 0]));
}

#[test]
fn a_preview_is_bounded_however_large_the_picture_is() {
    let folder = Folder::new();
    let mut state = 1_u32;
    let noise = RgbaImage::from_fn(1500, 1100, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgba(state.to_be_bytes())
    });
    let path = folder.picture("a.png", noise);
    let output = output("info", json!({"path": path, "preview": true})).unwrap();
    let image = &output.content[1];
    assert_eq!(
        (image.kind(), image.get("media_type").unwrap()),
        ("image", &json!("image/png"))
    );
    let shown = output.structured.unwrap()["preview"].clone();
    assert!(shown["bytes"].as_u64().unwrap() <= crate::preview::BYTES_MAX as u64);
    assert!(shown["width"].as_u64().unwrap() <= 1024);
    let small = folder.picture("b.png", quarters(8, 4));
    let shown = answer("info", json!({"path": small, "preview": true})).unwrap()["preview"].clone();
    assert_eq!((&shown["width"], &shown["height"]), (&json!(8), &json!(4)));
}

#[test]
fn a_bomb_is_refused_by_its_header() {
    let folder = Folder::new();
    let path = folder.file("bomb.png", png_header(100_000, 100_000));
    let facts = answer("info", json!({ "path": path })).unwrap();
    assert_eq!(facts["width"], 100_000);
    for input in [
        json!({"path": path, "preview": true}),
        json!({"path": path, "save_to": folder.path("b.png")}),
    ] {
        let tool = if input.get("save_to").is_some() {
            "convert"
        } else {
            "info"
        };
        let error = answer(tool, input).unwrap_err();
        assert_eq!(error.code, "picture_too_large");
        assert!(
            error.message.contains("100000 x 100000 pixels"),
            "{}",
            error.message
        );
    }
    let mut gif = b"GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff".to_vec();
    gif.extend(b"\x2c\0\0\0\0\xff\xff\xff\xff\0\x02\x02\x4c\x01\0\x3b");
    let path = folder.file("bomb.gif", gif);
    assert_eq!(
        code("info", json!({"path": path, "preview": true})),
        "picture_too_large"
    );
}

#[test]
fn what_is_no_picture_is_refused_with_a_reason() {
    let folder = Folder::new();
    let png = folder.picture("a.png", quarters(64, 64));
    let whole = fs::read(&png).unwrap();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("text.png", b"not a picture".to_vec(), "format_unknown"),
        ("empty.png", Vec::new(), "format_unknown"),
        (
            "cut.png",
            whole[..whole.len() / 2].to_vec(),
            "picture_invalid",
        ),
        ("signature.png", whole[..8].to_vec(), "picture_invalid"),
        ("cut.jpg", b"\xff\xd8\xff\xe0".to_vec(), "picture_invalid"),
        ("cut.gif", b"GIF89a".to_vec(), "picture_invalid"),
    ];
    for (name, bytes, expected) in cases {
        let path = folder.file(name, bytes);
        let input = json!({"path": path, "save_to": folder.path("out.png")});
        assert_eq!(code("convert", input), expected, "{name}");
    }
    let input = json!({"path": folder.path("none.png")});
    assert_eq!(code("info", input), "not_found");
    assert_eq!(
        code("info", json!({"path": folder.path("")})),
        "is_a_folder"
    );
}

#[test]
fn every_cut_and_every_flipped_byte_ends_in_an_answer() {
    let folder = Folder::new();
    for name in ["a.png", "a.jpg", "a.gif", "a.webp", "a.bmp"] {
        let whole = fs::read(folder.picture(name, quarters(9, 7))).unwrap();
        for at in 0..whole.len().min(400) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x55;
            for bytes in [flipped, whole[..at].to_vec()] {
                let path = folder.file("broken", bytes);
                let _ = answer("info", json!({"path": path, "preview": true}));
            }
        }
    }
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let folder = Folder::new();
    let path = folder.picture("a.png", quarters(10, 10));
    let cases = [
        (json!({"save_to": "b.txt"}), "format_unknown"),
        (
            json!({"save_to": "b.png", "format": "gif"}),
            "format_contradicts_name",
        ),
        (json!({"save_to": "b.png", "rotate": 45}), "rotate_invalid"),
        (json!({"save_to": "b.png", "enlarge": true}), "size_missing"),
        (
            json!({"save_to": "b.png", "crop": {"x": 5, "y": 0, "width": 6, "height": 1}}),
            "crop_outside",
        ),
        (
            json!({"save_to": "b.png", "crop": {"x": u32::MAX, "y": 0, "width": u32::MAX, "height": 1}}),
            "crop_outside",
        ),
        (
            json!({"save_to": "b.png", "max_width": 16_384, "enlarge": true}),
            "picture_too_large",
        ),
    ];
    for (mut input, expected) in cases {
        input["path"] = json!(path);
        input["save_to"] = json!(folder.path(input["save_to"].as_str().unwrap()));
        assert_eq!(code("convert", input), expected);
    }
}

#[test]
fn a_file_is_replaced_only_if_that_is_asked_for() {
    let folder = Folder::new();
    let path = folder.picture("a.png", quarters(10, 10));
    let mut input = json!({"path": path, "save_to": path, "max_width": 5});
    assert_eq!(code("convert", input.clone()), "already_exists");
    input["overwrite"] = json!(true);
    answer("convert", input).unwrap();
    assert_eq!(image::open(&path).unwrap().width(), 5);
}

#[test]
fn a_canceled_call_writes_nothing() {
    let folder = Folder::new();
    let path = folder.picture("a.png", quarters(10, 10));
    testing::reset();
    testing::cancel(AbortReason::UserInterruption);
    let input = json!({"path": path, "save_to": folder.path("b.png")});
    assert_eq!(code("convert", input), "canceled");
    assert!(!PathBuf::from(folder.path("b.png")).exists());
    testing::reset();
}

#[test]
fn the_color_profile_is_kept_if_it_is_one_for_the_colors() {
    let folder = Folder::new();
    let mut profile = vec![0; 128];
    profile[16..20].copy_from_slice(b"RGB ");
    for (space, kept) in [(b"RGB ", true), (b"CMYK", false)] {
        profile[16..20].copy_from_slice(space);
        let mut bytes = Vec::new();
        let mut encoder = image::codecs::png::PngEncoder::new(&mut bytes);
        encoder.set_icc_profile(profile.clone()).unwrap();
        quarters(4, 4).write_with_encoder(encoder).unwrap();
        let path = folder.file("a.png", bytes);
        assert_eq!(
            answer("info", json!({ "path": path })).unwrap()["has_color_profile"],
            true
        );
        let input = json!({"path": path, "save_to": folder.path("b.jpg"), "overwrite": true});
        let save_to = input["save_to"].clone();
        answer("convert", input).unwrap();
        let facts = answer("info", json!({ "path": save_to })).unwrap();
        assert_eq!(facts["has_color_profile"], kept);
    }
}
