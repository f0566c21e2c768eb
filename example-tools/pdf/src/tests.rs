use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use lopdf::{
    Dictionary, Document, EncryptionState, EncryptionVersion, Object, ObjectId, Permissions,
    Stream, StringFormat, dictionary,
};
use toolcell_guest::{
    Outcome, ToolError,
    cancellation::AbortReason,
    serde_json::{Value, json},
    testing,
};

use crate::Toolkit;

/// A file for one test, removed on drop.
struct TestFile(PathBuf);

impl TestFile {
    fn new(bytes: &[u8]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("toolcell-pdf-{}-{number}.pdf", process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn call(&self, tool: &str, mut input: Value) -> Result<Value, ToolError> {
        input["path"] = json!(self.0.display().to_string());
        match testing::invoke::<Toolkit>(tool, input) {
            Outcome::Success(output) => Ok(output.structured.unwrap()),
            Outcome::Failure(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// The text of all pages.
    fn pages(&self) -> Vec<String> {
        let texts = self.call("text", json!({})).unwrap();
        let pages = texts["pages"].as_array().unwrap().iter();
        pages
            .map(|page| page["text"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn failed(bytes: &[u8]) -> String {
    let file = TestFile::new(bytes);
    let error = file.call("text", json!({})).unwrap_err();
    assert!(!error.message.is_empty());
    error.code
}

fn text_object(text: &str) -> Object {
    Object::String(text.as_bytes().to_vec(), StringFormat::Literal)
}

/// A document whose pages have the contents, with the fonts `F` (Helvetica) and those of `resources`.
fn document(contents: &[&str], resources: Dictionary) -> Document {
    let mut document = Document::with_version("1.5");
    let pages_id = document.new_object_id();
    let mut fonts = dictionary! {
        "F" => dictionary! {
            "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Helvetica", "Encoding" => "WinAnsiEncoding",
        },
    };
    if let Ok(more) = resources.get(b"Font").and_then(Object::as_dict) {
        fonts.extend(more);
    }
    let mut all = resources;
    all.set("Font", fonts);
    let resources = document.add_object(all);
    let kids: Vec<Object> = contents
        .iter()
        .map(|content| {
            let stream = Stream::new(Dictionary::new(), content.as_bytes().to_vec());
            let content = document.add_object(stream);
            document
                .add_object(dictionary! {
                    "Type" => "Page", "Parent" => pages_id, "Contents" => content,
                    "MediaBox" => vec![0.into(), 0.into(), 595.into(), 842.into()],
                })
                .into()
        })
        .collect();
    let count = i64::try_from(kids.len()).unwrap();
    document.set_object(
        pages_id,
        dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count, "Resources" => resources },
    );
    let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => pages_id });
    document.trailer.set("Root", catalog);
    document
}

fn bytes_of(document: &mut Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

fn simple(contents: &[&str]) -> TestFile {
    TestFile::new(&bytes_of(&mut document(contents, Dictionary::new())))
}

const HELLO: &str = "BT /F 12 Tf 72 700 Td (Hello) Tj 0 -14 Td [(Wo) 20 (rld) -600 (again)] TJ ET";

#[test]
fn text_is_read_by_page_with_lines_and_words() {
    let second = "BT /F 10 Tf 1 0 0 1 50 500 Tm 12 TL (one) Tj T* (two) Tj (three) ' ET \
                  BT /F 10 Tf 50 100 Td (caf\\351 \\(x\\)) Tj ET";
    let file = simple(&[HELLO, second, ""]);
    let texts = file.call("text", json!({})).unwrap();
    assert_eq!(texts["page_count"], 3);
    assert_eq!(
        texts["pages"][0],
        json!({"page": 1, "text": "Hello\nWorld again"})
    );
    assert_eq!(
        texts["pages"][1]["text"],
        "one\ntwo\nthree\n\ncaf\u{e9} (x)"
    );
    assert_eq!(texts["pages"][2]["text"], "");
    assert_eq!(texts.get("next_page"), None);
}

#[test]
fn a_range_of_pages_is_read_and_continued() {
    let file = simple(&[HELLO; 5]);
    let texts = file.call("text", json!({"first": 2, "last": 3})).unwrap();
    let numbers: Vec<&Value> = (0..2).map(|at| &texts["pages"][at]["page"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(3)]);
    // Each page has 17 characters.
    let texts = file.call("text", json!({"max_chars": 40})).unwrap();
    assert_eq!(texts["pages"].as_array().unwrap().len(), 2);
    assert_eq!(texts["next_page"], 3);
    let texts = file
        .call("text", json!({"first": 5, "max_chars": 8}))
        .unwrap();
    let page = json!({"page": 5, "text": "Hello\nWo", "truncated": true});
    assert_eq!((&texts["pages"][0], texts.get("next_page")), (&page, None));
    let error = file.call("text", json!({"first": 6})).unwrap_err();
    assert_eq!(error.code, "no_such_page");
    let error = file
        .call("text", json!({"first": 3, "last": 2}))
        .unwrap_err();
    assert_eq!(error.code, "no_such_page");
}

/// A font whose codes mean what `table` says.
fn mapped(document: &mut Document, table: &str, encoding: &str) -> ObjectId {
    let table = Stream::new(Dictionary::new(), table.as_bytes().to_vec());
    let table = document.add_object(table);
    let inner = document.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "CIDFontType2", "DW" => 500,
        "W" => vec![1.into(), vec![600.into(), 700.into()].into(), 5.into(), 9.into(), 400.into()],
    });
    let mut font = dictionary! {
        "Type" => "Font", "Subtype" => "Type0", "Encoding" => encoding,
        "DescendantFonts" => vec![inner.into()],
    };
    if encoding.starts_with("Identity") {
        font.set("ToUnicode", table);
    }
    document.add_object(font)
}

const TABLE: &str = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap \
    1 begincodespacerange <0000> <FFFF> endcodespacerange \
    2 beginbfchar <0001> <0048> <0002> <00660069> endbfchar \
    2 beginbfrange <0010> <0012> <0061> <0020> <0021> [<65E5> <672C>] endbfrange \
    endcmap CMapName currentdict /CMap defineresource pop end end";

#[test]
fn codes_of_composite_fonts_are_mapped() {
    let mut document = document(
        &["BT /C 10 Tf 50 500 Td <000100020010001100120020002100FF> Tj ET"],
        Dictionary::new(),
    );
    let font = mapped(&mut document, TABLE, "Identity-H");
    set_font(&mut document, "C", font);
    let file = TestFile::new(&bytes_of(&mut document));
    assert_eq!(file.pages(), ["Hfiabc\u{65e5}\u{672c}\u{fffd}"]);
}

fn set_font(document: &mut Document, name: &str, font: ObjectId) {
    let fonts = document
        .objects
        .values_mut()
        .filter_map(|object| object.as_dict_mut().ok())
        .find_map(|dictionary| dictionary.get_mut(b"Font").ok()?.as_dict_mut().ok());
    fonts.unwrap().set(name, font);
}

#[test]
fn encodings_of_the_east_are_decoded() {
    for (encoding, hex, text) in [
        (
            "UniJIS-UTF16-H",
            "65E5672CD83DDE00",
            "\u{65e5}\u{672c}\u{1f600}",
        ),
        ("90ms-RKSJ-H", "93FA967B", "\u{65e5}\u{672c}"),
        ("GBK-EUC-H", "D6D0CEC4", "\u{4e2d}\u{6587}"),
        ("ETen-B5-H", "A4A4A4E5", "\u{4e2d}\u{6587}"),
        ("KSCms-UHC-H", "C7D1B1DB", "\u{d55c}\u{ae00}"),
    ] {
        let content = format!("BT /C 10 Tf 50 500 Td <{hex}> Tj ET");
        let mut document = document(&[&content], Dictionary::new());
        let font = mapped(&mut document, "", encoding);
        set_font(&mut document, "C", font);
        let file = TestFile::new(&bytes_of(&mut document));
        assert_eq!(file.pages(), [text], "{encoding}");
    }
}

#[test]
fn differences_of_an_encoding_count() {
    let font = dictionary! {
        "Type" => "Font", "Subtype" => "Type1",
        "Encoding" => dictionary! {
            "Type" => "Encoding",
            "Differences" => vec![
                65.into(), "eacute".into(), "uni20AC".into(), "g17".into(), "fi".into(), 400.into(), "a".into(),
            ],
        },
    };
    let resources = dictionary! { "Font" => dictionary! { "D" => font } };
    let mut document = document(&["BT /D 10 Tf 50 500 Td (ABCDE) Tj ET"], resources);
    let file = TestFile::new(&bytes_of(&mut document));
    assert_eq!(file.pages(), ["\u{e9}\u{20ac}CfiE"]);
}

#[test]
fn the_program_of_a_font_has_its_own_encoding() {
    let mut document = document(
        &["BT /D 10 Tf 50 500 Td (e\\014cient) Tj ET"],
        Dictionary::new(),
    );
    let program = b"/Encoding 256 array\ndup 12 /ffi put\ndup 999 /a put\nreadonly def currentfile eexec dup 101 /x put";
    let program = document.add_object(Stream::new(Dictionary::new(), program.to_vec()));
    let font = document.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "Type1", "FontDescriptor" => dictionary! { "FontFile" => program },
    });
    set_font(&mut document, "D", font);
    assert_eq!(
        TestFile::new(&bytes_of(&mut document)).pages(),
        ["efficient"]
    );
}

#[test]
fn words_in_a_standard_font_without_widths_are_separated() {
    let file = simple(&["BT /F 10 Tf 50 500 Td (illicit) Tj 22 0 Td (will) Tj ET"]);
    assert_eq!(file.pages(), ["illicit will"]);
}

#[test]
fn forms_are_read_and_may_contain_themselves() {
    let mut document = document(
        &["/X Do BT /F 10 Tf 50 500 Td (after) Tj ET"],
        Dictionary::new(),
    );
    let form = document.new_object_id();
    let content = b"BT /F 10 Tf 50 600 Td (form) Tj ET /X Do /X Do".to_vec();
    let stream = Stream::new(
        dictionary! { "Type" => "XObject", "Subtype" => "Form" },
        content,
    );
    document.set_object(form, stream);
    let resources = document
        .objects
        .values_mut()
        .filter_map(|object| object.as_dict_mut().ok())
        .find(|dictionary| dictionary.has(b"Font"));
    resources
        .unwrap()
        .set("XObject", dictionary! { "X" => form });
    let text = TestFile::new(&bytes_of(&mut document)).pages().remove(0);
    assert!(
        text.starts_with("form") && text.ends_with("after"),
        "{text:.100}"
    );
}

#[test]
fn info_tells_what_the_file_says_about_itself() {
    let mut document = document(&[HELLO, HELLO], Dictionary::new());
    let info = document.add_object(dictionary! {
        "Title" => Object::String(b"\xfe\xff\x00T\x20\xac".to_vec(), StringFormat::Hexadecimal),
        "Author" => text_object("Ada"),
        "Subject" => text_object(" "),
        "Keywords" => 7,
        "Producer" => text_object(&"x".repeat(5_000)),
        "CreationDate" => text_object("D:20240501120000+02'00'"),
        "ModDate" => text_object("nonsense"),
    });
    document.trailer.set("Info", info);
    let file = TestFile::new(&bytes_of(&mut document));
    let info = file.call("info", json!({})).unwrap();
    let expected = json!({
        "version": "1.5", "encrypted": false, "needs_password": false, "pages": 2, "title": "T\u{20ac}",
        "author": "Ada", "producer": "x".repeat(1_000), "created": "2024-05-01T12:00:00+02:00",
    });
    assert_eq!(info, expected);
}

fn encrypted(user_password: &str) -> TestFile {
    let mut document = document(&[HELLO], Dictionary::new());
    let id = text_object("0123456789abcdef");
    document.trailer.set("ID", vec![id.clone(), id]);
    let version = EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password,
        key_length: 128,
        permissions: Permissions::all(),
    };
    let state = EncryptionState::try_from(version).unwrap();
    document.encrypt(&state).unwrap();
    TestFile::new(&bytes_of(&mut document))
}

#[test]
fn an_encrypted_file_is_read_if_no_password_is_needed() {
    let open = encrypted("");
    assert_eq!(open.pages(), ["Hello\nWorld again"]);
    let info = open.call("info", json!({})).unwrap();
    assert_eq!(
        (&info["encrypted"], &info["needs_password"]),
        (&json!(true), &json!(false))
    );

    let closed = encrypted("secret");
    let error = closed.call("text", json!({})).unwrap_err();
    assert_eq!(error.code, "password_needed");
    let info = closed.call("info", json!({})).unwrap();
    assert_eq!(
        (&info["needs_password"], info.get("pages")),
        (&json!(true), None)
    );
}

#[test]
fn what_is_no_pdf_is_refused() {
    for bytes in [&b""[..], b"garbage", &[0; 5_000], b"PK\x03\x04"] {
        assert_eq!(failed(bytes), "not_a_pdf");
    }
    for bytes in [
        &b"%PDF-1.7\n"[..],
        b"%PDF-1.4\n%%EOF",
        b"%PDF-1.4\nstartxref\n9\n%%EOF",
    ] {
        assert_eq!(failed(bytes), "damaged_pdf");
    }
    let error = TestFile(env::temp_dir()).call("info", json!({}));
    assert_eq!(error.unwrap_err().code, "is_a_folder");
}

/// A file with a catalog and the objects from number 2 on; the crate has to find them itself.
fn raw(objects: &[&str]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n".to_vec();
    for (number, object) in (2..).zip(objects) {
        writeln!(bytes, "{number} 0 obj {object} endobj").unwrap();
    }
    bytes.extend(b"trailer << /Root 1 0 R /Size 9 >>\nstartxref\n0\n%%EOF");
    bytes
}

#[test]
fn cycles_and_deep_nesting_end() {
    // Pages that are their own children, a page that is its own parent, and lengths that refer to themselves.
    for objects in [
        vec!["<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"],
        vec![
            "<< /Type /Pages /Kids [3 0 R] >>",
            "<< /Type /Pages /Kids [2 0 R] >>",
        ],
        vec!["2 0 R"],
        vec!["3 0 R", "2 0 R"],
    ] {
        assert_eq!(failed(&raw(&objects)), "damaged_pdf", "{objects:?}");
    }
    let page = "<< /Type /Page /Parent 3 0 R /Contents 4 0 R /Resources 3 0 R >>";
    let file = TestFile::new(&raw(&[
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page,
        "<< /Length 4 0 R >> stream\nBT (x) Tj ET\nendstream",
    ]));
    let _ = file.call("text", json!({}));

    for (open, close) in [("[", "]"), ("<< /A ", ">>"), ("(", ")")] {
        let deep = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        let file = TestFile::new(&raw(&["<< /Type /Pages /Kids [3 0 R] >>", &deep]));
        let _ = file.call("text", json!({}));
        let content = format!("{deep} TJ");
        let _ = simple(&[&content]).call("text", json!({}));
    }
    let saved = "q ".repeat(200_000);
    assert_eq!(
        simple(&[&format!("{saved}{HELLO}")]).pages(),
        ["Hello\nWorld again"]
    );
}

#[test]
fn bombs_are_refused() {
    let content = " ".repeat(4 << 20);
    let mut document = document(&[&content], Dictionary::new());
    document.compress();
    let page = document.page_iter().next().unwrap();
    let page = document.get_dictionary_mut(page).unwrap();
    let content = page.get(b"Contents").unwrap().clone();
    page.set("Contents", vec![content; 17]);
    let bytes = bytes_of(&mut document);
    assert!(bytes.len() < 1 << 16);
    assert_eq!(failed(&bytes), "pages_too_large");
}

#[test]
fn a_table_with_a_range_of_all_codes_costs_nothing() {
    let table = "1 beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange";
    let mut document = document(&["BT /C 10 Tf 50 500 Td <0001> Tj ET"], Dictionary::new());
    let font = mapped(&mut document, table, "Identity-H");
    set_font(&mut document, "C", font);
    assert_eq!(TestFile::new(&bytes_of(&mut document)).pages(), ["B"]);
}

#[test]
fn changed_and_cut_files_do_not_panic() {
    let mut document = document(&[HELLO, HELLO], Dictionary::new());
    let font = mapped(&mut document, TABLE, "Identity-H");
    set_font(&mut document, "C", font);
    let bytes = bytes_of(&mut document);
    let mut random = 1_u64;
    for _ in 0..600 {
        let mut changed = bytes.clone();
        for _ in 0..4 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = usize::try_from(random >> 33).unwrap() % changed.len();
            changed[at] = random.to_le_bytes()[6];
        }
        changed.truncate(changed.len() - usize::try_from(random >> 60).unwrap());
        let file = TestFile::new(&changed);
        let _ = file.call("text", json!({}));
        let _ = file.call("info", json!({}));
    }
}

#[test]
fn a_canceled_call_ends() {
    testing::reset();
    let file = simple(&[HELLO]);
    testing::cancel(AbortReason::Timeout);
    let error = file.call("text", json!({})).unwrap_err();
    testing::reset();
    assert_eq!(error.code, "canceled");
}
