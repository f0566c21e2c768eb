//! A component that is small to send and slow to compile. Compilation cannot be interrupted, so a host has to limit it
//! from outside. The tests include this file with `#[path]` and turn the text into bytes with the crate `wat`.

/// A component that takes more time and memory to compile than the tests allow.
pub(crate) fn compile_bomb() -> String {
    slow_to_compile(5_000)
}

/// The echo tool with one more function, which is never called, with `size` locals and branches. All its locals live
/// across all its branches, so the work of the register allocator grows with the square. 2,000 take about four seconds.
pub(crate) fn slow_to_compile(size: usize) -> String {
    let module = "(core module $main";
    let armed = format!("{module}\n{}", slow_function(size));
    include_str!("wat/echo.wat").replacen(module, &armed, 1)
}

fn slow_function(size: usize) -> String {
    let mut text = format!(
        "(func (param $seed i32) (result i32) (local{})\n",
        " i32".repeat(size)
    );
    for local in 1..=size {
        text += &format!("(local.set {local} (i32.mul (local.get $seed) (i32.const {local})))\n");
    }
    for branch in 1..=size {
        let changed = (branch * 7) % size + 1;
        let other = (branch * 13) % size + 1;
        text += &format!(
            "(if (i32.and (local.get $seed) (i32.const {branch}))
               (then (local.set {changed} (i32.add (local.get {changed}) (local.get {other})))))\n"
        );
    }
    text += "(local.get $seed)\n";
    for local in 1..=size {
        text += &format!("(i32.add (local.get {local}))\n");
    }
    text + ")"
}
