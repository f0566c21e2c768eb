//! Runs the operators of a page that show text.

use std::{collections::BTreeMap, rc::Rc};

use lopdf::{
    DecompressError, Dictionary, Error, Object, ObjectId, Stream,
    content::{Content, Operation},
};
use toolcell_guest::{ToolError, cancellation};

use crate::{
    document::{Pdf, explain},
    font::Font,
    geometry::Matrix,
    layout::{Layout, Piece},
};

/// Maximum unpacked size of all pages of a call, in bytes. Each use of a form counts.
const CONTENT_BYTES_MAX: usize = 64 << 20;
/// Maximum nesting of forms, and of saved states.
const FORMS_MAX: usize = 12;
const STATES_MAX: usize = 256;
/// Operators between two looks at whether the call was canceled.
const CHECK_EVERY: usize = 4_096;

/// Shared by the pages of one call.
pub(crate) struct Interpreter<'d> {
    pdf: &'d Pdf,
    path: &'d str,
    /// Fonts by object.
    fonts: BTreeMap<ObjectId, Rc<Font>>,
    content_bytes: usize,
}

/// The text of one page, and whether it is cut off.
pub(crate) struct PageText {
    pub(crate) text: String,
    pub(crate) is_cut: bool,
}

#[derive(Clone)]
struct State {
    matrix: Matrix,
    font: Option<Rc<Font>>,
    size: f32,
    char_space: f32,
    word_space: f32,
    stretch: f32,
    leading: f32,
    rise: f32,
}

impl State {
    fn new(matrix: Matrix) -> Self {
        Self {
            matrix,
            font: None,
            size: 1.0,
            char_space: 0.0,
            word_space: 0.0,
            stretch: 1.0,
            leading: 0.0,
            rise: 0.0,
        }
    }
}

/// A run of one content stream.
struct Run<'r, 'd> {
    shared: &'r mut Interpreter<'d>,
    resources: Vec<&'d Dictionary>,
    layout: &'r mut Layout,
    state: State,
    saved: Vec<State>,
    text_matrix: Matrix,
    line_matrix: Matrix,
    depth: usize,
}

impl<'d> Interpreter<'d> {
    pub(crate) fn new(pdf: &'d Pdf, path: &'d str) -> Self {
        Self {
            pdf,
            path,
            fonts: BTreeMap::new(),
            content_bytes: 0,
        }
    }

    pub(crate) fn page(&mut self, page: ObjectId, chars_max: usize) -> Result<PageText, ToolError> {
        let document = &self.pdf.document;
        let rest = CONTENT_BYTES_MAX - self.content_bytes;
        let content = document
            .get_page_content_with_limit(page, rest)
            .map_err(|error| self.too_large(&error))?;
        self.content_bytes += content.len().min(rest);
        let (own, referenced) = document.get_page_resources(page).unwrap_or_default();
        let referenced = referenced
            .into_iter()
            .filter_map(|id| document.get_dictionary(id).ok());
        let resources = own.into_iter().chain(referenced).collect();
        let mut layout = Layout::new(chars_max);
        self.run(
            &content,
            resources,
            State::new(Matrix::IDENTITY),
            &mut layout,
            0,
        )?;
        let (text, is_cut) = layout.finish();
        Ok(PageText { text, is_cut })
    }

    fn run(
        &mut self,
        content: &[u8],
        resources: Vec<&'d Dictionary>,
        state: State,
        layout: &mut Layout,
        depth: usize,
    ) -> Result<(), ToolError> {
        let mut run = Run {
            shared: self,
            resources,
            layout,
            state,
            saved: Vec::new(),
            text_matrix: Matrix::IDENTITY,
            line_matrix: Matrix::IDENTITY,
            depth,
        };
        for (number, operation) in Content::decode_iter(content).enumerate() {
            if number % CHECK_EVERY == 0 {
                cancellation::check()?;
            }
            // What follows an operator that cannot be read is lost; what came before it is of use.
            let Ok(operation) = operation else { break };
            if run.layout.is_full() {
                break;
            }
            run.operate(&operation)?;
        }
        Ok(())
    }

    /// The content of a form.
    fn unpack(&mut self, form: &Stream) -> Result<Vec<u8>, ToolError> {
        let rest = CONTENT_BYTES_MAX - self.content_bytes;
        match form.get_plain_content_with_limit(rest) {
            Ok(content) => {
                // An empty form costs time as well.
                self.content_bytes = CONTENT_BYTES_MAX.min(self.content_bytes + content.len() + 64);
                Ok(content)
            }
            Err(error @ Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
                Err(self.too_large(&error))
            }
            Err(_) => Ok(Vec::new()),
        }
    }

    fn too_large(&self, error: &Error) -> ToolError {
        match error {
            Error::Decompress(DecompressError::MemoryLimitExceeded { .. }) => {
                let message = format!(
                    "the pages of {} unpack to more than {CONTENT_BYTES_MAX} bytes; ask for fewer pages",
                    self.path
                );
                ToolError::capability_gap("pages_too_large", message)
            }
            error => explain(self.path, error),
        }
    }
}

impl<'d> Run<'_, 'd> {
    fn operate(&mut self, operation: &Operation) -> Result<(), ToolError> {
        let operands = operation.operands.as_slice();
        match operation.operator.as_str() {
            "q" if self.saved.len() < STATES_MAX => self.saved.push(self.state.clone()),
            "Q" => {
                if let Some(state) = self.saved.pop() {
                    self.state = state;
                }
            }
            "cm" => {
                if let Some(matrix) = matrix(operands) {
                    self.state.matrix = matrix.then(self.state.matrix);
                }
            }
            "Do" => self.form(operands)?,
            "BT" => self.set_line(Matrix::IDENTITY),
            "Tf" => self.set_font(operands),
            "Tm" => {
                if let Some(matrix) = matrix(operands) {
                    self.set_line(matrix);
                }
            }
            "Td" => self.move_line(number(operands, 0), number(operands, 1)),
            "TD" => {
                self.state.leading = -number(operands, 1);
                self.move_line(number(operands, 0), number(operands, 1));
            }
            "T*" => self.next_line(),
            "Tc" => self.state.char_space = number(operands, 0),
            "Tw" => self.state.word_space = number(operands, 0),
            "Tz" => self.state.stretch = number(operands, 0) / 100.0,
            "TL" => self.state.leading = number(operands, 0),
            "Ts" => self.state.rise = number(operands, 0),
            "Tj" => self.show(operands.first()),
            "TJ" => self.show_all(operands),
            "'" => {
                self.next_line();
                self.show(operands.first());
            }
            "\"" => {
                self.state.word_space = number(operands, 0);
                self.state.char_space = number(operands, 1);
                self.next_line();
                self.show(operands.get(2));
            }
            _ => {}
        }
        Ok(())
    }

    fn set_line(&mut self, matrix: Matrix) {
        self.text_matrix = matrix;
        self.line_matrix = matrix;
    }

    fn move_line(&mut self, x: f32, y: f32) {
        self.set_line(Matrix::translation(x, y).then(self.line_matrix));
    }

    fn next_line(&mut self) {
        self.move_line(0.0, -self.state.leading);
    }

    fn set_font(&mut self, operands: &[Object]) {
        self.state.size = number(operands, 1);
        let name = operands.first().and_then(|name| name.as_name().ok());
        self.state.font = name.and_then(|name| self.font(name));
    }

    fn font(&mut self, name: &[u8]) -> Option<Rc<Font>> {
        let pdf = self.shared.pdf;
        let object = self.resource(b"Font", name)?;
        let id = object.as_reference().ok();
        if let Some(known) = id.and_then(|id| self.shared.fonts.get(&id)) {
            return Some(Rc::clone(known));
        }
        let dictionary = pdf.resolve(object)?.as_dict().ok()?;
        let font = Rc::new(Font::read(pdf, dictionary));
        if let Some(id) = id {
            self.shared.fonts.insert(id, Rc::clone(&font));
        }
        Some(font)
    }

    /// A resource by its kind and its name, not resolved.
    fn resource(&self, kind: &[u8], name: &[u8]) -> Option<&'d Object> {
        let pdf = self.shared.pdf;
        self.resources.iter().find_map(|resources| {
            let kind = pdf.get(resources, kind)?.as_dict().ok()?;
            kind.get(name).ok()
        })
    }

    fn form(&mut self, operands: &[Object]) -> Result<(), ToolError> {
        let pdf = self.shared.pdf;
        let name = operands.first().and_then(|name| name.as_name().ok());
        let object = name.and_then(|name| self.resource(b"XObject", name));
        let Some(Object::Stream(form)) = object.and_then(|object| pdf.resolve(object)) else {
            return Ok(());
        };
        let subtype = form.dict.get(b"Subtype").and_then(Object::as_name);
        // A form can contain itself.
        if subtype.ok() != Some(b"Form") || self.depth >= FORMS_MAX {
            return Ok(());
        }
        let content = self.shared.unpack(form)?;
        let own = pdf.get(&form.dict, b"Resources");
        let resources = match own.and_then(|own| own.as_dict().ok()) {
            Some(own) => vec![own],
            None => self.resources.clone(),
        };
        let own = pdf
            .get(&form.dict, b"Matrix")
            .and_then(|list| list.as_array().ok());
        let own = own
            .and_then(|list| matrix(list))
            .unwrap_or(Matrix::IDENTITY);
        let mut state = self.state.clone();
        state.matrix = own.then(state.matrix);
        self.shared
            .run(&content, resources, state, self.layout, self.depth + 1)
    }

    fn show_all(&mut self, operands: &[Object]) {
        let items = operands.first().and_then(|items| items.as_array().ok());
        for item in items.into_iter().flatten() {
            match item.as_float() {
                Ok(back) => {
                    let x = -back / 1_000.0 * self.state.size * self.state.stretch;
                    self.text_matrix = Matrix::translation(x, 0.0).then(self.text_matrix);
                }
                Err(_) => self.show(Some(item)),
            }
        }
    }

    fn show(&mut self, operand: Option<&Object>) {
        let Some(Object::String(bytes, _)) = operand else {
            return;
        };
        let Some(font) = self.state.font.clone() else {
            return;
        };
        let shown = font.show(bytes);
        let state = &self.state;
        let advance = shown.width / 1_000.0 * state.size
            + shown.codes as f32 * state.char_space
            + shown.spaces as f32 * state.word_space;
        let before = Matrix::translation(0.0, state.rise)
            .then(self.text_matrix)
            .then(state.matrix);
        let moved = Matrix::translation(advance * state.stretch, 0.0);
        let (direction, _) = before.direction();
        // A superscript is on the line of its neighbours.
        let base = self.text_matrix.then(state.matrix);
        let end = moved.then(base);
        self.layout.add(&Piece {
            text: &shown.text,
            start: base.origin(),
            end: end.origin(),
            direction,
            height: (base.height() * state.size).abs(),
        });
        self.text_matrix = moved.then(self.text_matrix);
    }
}

/// A number among the operands; 0 if it is missing.
fn number(operands: &[Object], at: usize) -> f32 {
    operands
        .get(at)
        .and_then(|operand| operand.as_float().ok())
        .unwrap_or(0.0)
}

fn matrix(operands: &[Object]) -> Option<Matrix> {
    let mut numbers = [0.0; 6];
    for (at, place) in numbers.iter_mut().enumerate() {
        *place = operands.get(at)?.as_float().ok()?;
    }
    Some(Matrix(numbers))
}
