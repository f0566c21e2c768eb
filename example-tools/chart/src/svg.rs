use std::fmt::Write;

use crate::scene::{Anchor, Scene, Shape, Spot, WHITE};

// Writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($what:tt)*) => {{
        let _ = write!($out, $($what)*);
    }};
}

pub(crate) fn render(scene: &Scene) -> String {
    let width = scene.width;
    let height = scene.height;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        escape(&scene.title),
        WHITE.hex()
    );
    for shape in &scene.shapes {
        one(&mut out, shape);
        out.push('\n');
    }
    out.push_str("</svg>\n");
    out
}

fn one(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Line {
            spots,
            color,
            width,
            dash,
        } => {
            put!(out, "<path d=\"");
            path(out, spots);
            put!(
                out,
                "\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"",
                color.hex(),
                short(*width)
            );
            if let Some([dash, gap]) = dash {
                put!(
                    out,
                    " stroke-dasharray=\"{} {}\"",
                    short(*dash),
                    short(*gap)
                );
            }
            out.push_str("/>");
        }
        Shape::Area {
            spots,
            color,
            opacity,
        } => {
            put!(out, "<path d=\"");
            path(out, spots);
            put!(
                out,
                "Z\" fill=\"{}\" fill-opacity=\"{}\"/>",
                color.hex(),
                short(*opacity)
            );
        }
        Shape::Rect {
            at,
            width,
            height,
            color,
        } => put!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            short(at.0),
            short(at.1),
            short(*width),
            short(*height),
            color.hex()
        ),
        Shape::Dots { .. } => dots(out, shape),
        Shape::Text { .. } => text(out, shape),
    }
}

fn dots(out: &mut String, shape: &Shape) {
    let Shape::Dots {
        spots,
        radius,
        color,
        opacity,
    } = shape
    else {
        return;
    };
    let color = color.hex();
    let opacity = short(*opacity);
    let radius = short(*radius);
    put!(out, "<g fill=\"{color}\" fill-opacity=\"{opacity}\">");
    for spot in spots {
        let x = short(spot.0);
        let y = short(spot.1);
        put!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
    }
    out.push_str("</g>");
}

fn text(out: &mut String, shape: &Shape) {
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
    let x = short(at.0);
    let y = short(at.1);
    put!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"",
        short(*size),
        color.hex()
    );
    match anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
        Anchor::End => out.push_str(" text-anchor=\"end\""),
    }
    if *turn != 0.0 {
        put!(out, " transform=\"rotate({} {x} {y})\"", short(*turn));
    }
    put!(out, ">{}</text>", escape(text));
}

fn path(out: &mut String, spots: &[Spot]) {
    for (at, spot) in spots.iter().enumerate() {
        let letter = if at == 0 { 'M' } else { 'L' };
        put!(out, "{letter}{} {}", short(spot.0), short(spot.1));
    }
}

/// Two places are a hundredth of a pixel.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// Text that no reader of XML takes for markup. Characters that XML forbids become spaces.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}
