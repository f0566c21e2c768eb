//! A component whose tasks wait with deep stacks.

/// Calls of one function of a stack.
const DEPTH: u32 = 28_000;

/// A component with a task that never ends.
const SLEEPER: &str = r#"
    (component $sleeper
      (core module $page (memory (export "memory") 1))
      (core instance $page (instantiate $page))
      (alias core export $page "memory" (core memory $memory))
      (core func $new (canon waitable-set.new))
      (core func $wait (canon waitable-set.wait (memory $memory)))
      (core module $main
        (import "" "new" (func $new (result i32)))
        (import "" "wait" (func $wait (param i32 i32) (result i32)))
        (func (export "run") (drop (call $wait (call $new) (i32.const 0)))))
      (core instance $main (instantiate $main (with ""
        (instance (export "new" (func $new)) (export "wait" (func $wait))))))
      (func (export "run") async (canon lift (core func $main "run"))))
    (instance $sleeper (instantiate $sleeper))"#;

/// A plain function `go` that starts `tasks` tasks, each in an instance of its own. Each goes deep into its stack, and then waits
/// for a task that never ends.
pub(crate) fn waiting_tasks(tasks: usize) -> Vec<u8> {
    let each = |line: fn(usize) -> String| (0..tasks).map(line).collect::<String>();
    let instances = each(|task| {
        format!(
            r#"(instance $waiter{task} (instantiate $waiter (with "run" (func $sleeper "run"))))"#
        )
    });
    let imports = each(|task| format!(r#"(import "run{task}" (func $run{task} async))"#));
    let lowered = each(|task| {
        format!("(core func $start{task} (canon lower (func $run{task}) async (memory $memory)))")
    });
    let starts =
        each(|task| format!(r#"(import "" "start{task}" (func $start{task} (result i32)))"#));
    let calls = each(|task| format!("(drop (call $start{task}))"));
    let given = each(|task| format!(r#"(export "start{task}" (func $start{task}))"#));
    let arguments = each(|task| format!(r#"(with "run{task}" (func $waiter{task} "run"))"#));
    let text = format!(
        r#"(component
          {SLEEPER}
          (component $waiter
            (import "run" (func $run async))
            (core func $run (canon lower (func $run)))
            (core module $main
              (import "" "run" (func $wait))
              (func $deep (param $left i32) (result i32)
                (if (i32.eqz (local.get $left)) (then (call $wait) (return (i32.const 0))))
                (i32.add (call $deep (i32.sub (local.get $left) (i32.const 1))) (i32.const 1)))
              (func (export "run") (drop (call $deep (i32.const {DEPTH})))))
            (core instance $main (instantiate $main (with "" (instance (export "run" (func $run))))))
            (func (export "run") async (canon lift (core func $main "run"))))
          {instances}
          (component $starter
            {imports}
            (core module $page (memory (export "memory") 1))
            (core instance $page (instantiate $page))
            (alias core export $page "memory" (core memory $memory))
            {lowered}
            (core module $main
              {starts}
              (func (export "go") (result i32) {calls} (i32.const {tasks})))
            (core instance $main (instantiate $main (with "" (instance {given}))))
            (func (export "go") (result u32) (canon lift (core func $main "go"))))
          (instance $starter (instantiate $starter {arguments}))
          (export "go" (func $starter "go")))"#
    );
    wat::parse_str(text).unwrap()
}
