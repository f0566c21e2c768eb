use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};
use toolcell_guest::ToolError;

use crate::{
    font::{Font, OutlinePen},
    scene::{self, Anchor, Scene, Shape, Spot},
};

pub(crate) fn render(scene: &Scene, font: &Font, scale: f64) -> Result<Vec<u8>, ToolError> {
    let side = |length: u32| (f64::from(length) * scale).round().max(1.0) as u32;
    let failed = |what: String| ToolError::execution_failed("png_failed", what);
    let mut pixels = Pixmap::new(side(scene.width), side(scene.height))
        .ok_or_else(|| failed("the picture has no memory".to_owned()))?;
    pixels.fill(Color::WHITE);
    let scaled = Transform::from_scale(scale as f32, scale as f32);
    for shape in &scene.shapes {
        one(&mut pixels, shape, font, scaled);
    }
    pixels
        .encode_png()
        .map_err(|error| failed(error.to_string()))
}

fn one(pixels: &mut Pixmap, shape: &Shape, font: &Font, scaled: Transform) {
    match shape {
        Shape::Line {
            spots,
            color,
            width,
            dash,
        } => {
            let stroke = Stroke {
                width: *width as f32,
                line_join: LineJoin::Round,
                dash: dash
                    .and_then(|[dash, gap]| StrokeDash::new(vec![dash as f32, gap as f32], 0.0)),
                ..Stroke::default()
            };
            if let Some(path) = path(spots, false) {
                pixels.stroke_path(&path, &paint(*color, 1.0), &stroke, scaled, None);
            }
        }
        Shape::Area {
            spots,
            color,
            opacity,
        } => {
            if let Some(path) = path(spots, true) {
                fill(pixels, &path, &paint(*color, *opacity), scaled);
            }
        }
        Shape::Rect {
            at,
            width,
            height,
            color,
        } => {
            let rect = Rect::from_xywh(at.0 as f32, at.1 as f32, *width as f32, *height as f32);
            if let Some(rect) = rect {
                pixels.fill_rect(rect, &paint(*color, 1.0), scaled, None);
            }
        }
        Shape::Dots {
            spots,
            radius,
            color,
            opacity,
        } => {
            let paint = paint(*color, *opacity);
            if let Some(dot) = PathBuilder::from_circle(0.0, 0.0, *radius as f32) {
                for spot in spots {
                    let moved = scaled.pre_translate(spot.0 as f32, spot.1 as f32);
                    fill(pixels, &dot, &paint, moved);
                }
            }
        }
        Shape::Text { .. } => text(pixels, shape, font, scaled),
    }
}

fn text(pixels: &mut Pixmap, shape: &Shape, font: &Font, scaled: Transform) {
    let Shape::Text {
        at,
        text,
        size,
        color,
        anchor,
        turn,
    } = shape
    else {
        return;
    };
    let width = font.width(text, *size);
    let start = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    let mut pen = Pen(PathBuilder::new());
    font.outline(text, *size, &mut pen);
    let placed = scaled
        .pre_translate(at.0 as f32, at.1 as f32)
        .pre_rotate(*turn as f32)
        .pre_translate(start as f32, 0.0);
    if let Some(path) = pen.0.finish() {
        fill(pixels, &path, &paint(*color, 1.0), placed);
    }
}

fn fill(pixels: &mut Pixmap, path: &Path, paint: &Paint<'_>, placed: Transform) {
    pixels.fill_path(path, paint, FillRule::Winding, placed, None);
}

fn paint(color: scene::Color, opacity: f64) -> Paint<'static> {
    let mut paint = Paint::default();
    let alpha = (opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    paint.set_color_rgba8(color.0, color.1, color.2, alpha);
    paint
}

fn path(spots: &[Spot], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (at, spot) in spots.iter().enumerate() {
        let x = spot.0 as f32;
        let y = spot.1 as f32;
        if at == 0 {
            builder.move_to(x, y);
        } else {
            builder.line_to(x, y);
        }
    }
    if closed {
        builder.close();
    }
    builder.finish()
}

/// Outlines have y upwards, pictures downwards.
struct Pen(PathBuilder);

impl OutlinePen for Pen {
    fn move_to(&mut self, to: (f64, f64)) {
        self.0.move_to(to.0 as f32, -to.1 as f32);
    }

    fn line_to(&mut self, to: (f64, f64)) {
        self.0.line_to(to.0 as f32, -to.1 as f32);
    }

    fn quad_to(&mut self, by: (f64, f64), to: (f64, f64)) {
        self.0
            .quad_to(by.0 as f32, -by.1 as f32, to.0 as f32, -to.1 as f32);
    }

    fn curve_to(&mut self, first: (f64, f64), second: (f64, f64), to: (f64, f64)) {
        self.0.cubic_to(
            first.0 as f32,
            -first.1 as f32,
            second.0 as f32,
            -second.1 as f32,
            to.0 as f32,
            -to.1 as f32,
        );
    }

    fn close(&mut self) {
        self.0.close();
    }
}
