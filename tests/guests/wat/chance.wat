;; Answers two random numbers and the monotonic clock, as letters. With any argument it reads the clock 5,000 times
;; before.
(component
  (import "wasi:random/random@0.2.6" (instance $random (export "get-random-u64" (func (result u64)))))
  (import "wasi:random/insecure@0.2.6" (instance $insecure (export "get-insecure-random-u64" (func (result u64)))))
  (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock (export "now" (func (result u64)))))
  (component $tool
    (import "random" (instance $random (export "get-random-u64" (func (result u64)))))
    (import "insecure" (instance $insecure (export "get-insecure-random-u64" (func (result u64)))))
    (import "clock" (instance $clock (export "now" (func (result u64)))))
    (core func $random (canon lower (func $random "get-random-u64")))
    (core func $insecure (canon lower (func $insecure "get-insecure-random-u64")))
    (core func $now (canon lower (func $clock "now")))
    (core module $main
      (import "world" "random" (func $random (result i64)))
      (import "world" "insecure" (func $insecure (result i64)))
      (import "world" "now" (func $now (result i64)))
      (memory (export "memory") 1)
      (data (i32.const 32) "[]")
      (data (i32.const 1024) "{\"declarations\":[{\"schema_version\":\"0.2.0\",\"namespace\":\"wat\",\"name\":\"chance\",\"description\":\"Answers random numbers and a clock\",\"lifecycle\":\"available\",\"tool_kind\":\"function\",\"input_contract\":{\"model_input_schema\":{\"type\":\"object\"},\"strict\":false}}]}")

      ;; Answers the text at 1024.
      (func (export "describe") (result i32)
        (i32.store (i32.const 16) (i32.const 1024))
        (i32.store (i32.const 20) (i32.const 250))
        (i32.const 16))

      ;; Hands out one block after the other, and never takes one back.
      (global $free (mut i32) (i32.const 8192))
      (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
        (global.set $free (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.get $free)
        (global.set $free (i32.add (global.get $free) (local.get $size))))

      ;; Writes a number as sixteen letters.
      (func $write (param $number i64) (param $at i32)
        (local $left i32)
        (local.set $left (i32.const 16))
        (loop $letter
          (i32.store8 (local.get $at)
            (i32.add (i32.const 97) (i32.and (i32.wrap_i64 (local.get $number)) (i32.const 15))))
          (local.set $number (i64.shr_u (local.get $number) (i64.const 4)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (local.set $left (i32.sub (local.get $left) (i32.const 1)))
          (br_if $letter (local.get $left))))

      (func (export "invoke")
        (param $id i32) (param $id_len i32) (param $tool i32) (param $tool_len i32) (param $input i32) (param $input_len i32)
        (param $attempt i32) (param $context i32) (param $context_len i32)
        (result i32)
        (local $readings i32)
        (if (i32.gt_u (local.get $input_len) (i32.const 2))
          (then
            (local.set $readings (i32.const 5000))
            (loop $reading
              (drop (call $now))
              (local.set $readings (i32.sub (local.get $readings) (i32.const 1)))
              (br_if $reading (local.get $readings)))))
        ;; At 600, the structured text: the letters between quotes.
        (i32.store8 (i32.const 600) (i32.const 34))
        (call $write (call $random) (i32.const 601))
        (call $write (call $insecure) (i32.const 617))
        (call $write (call $now) (i32.const 633))
        (i32.store8 (i32.const 649) (i32.const 34))
        ;; At 64, an outcome: the case, then from 72 on the content, the structured text, and no summary.
        (i32.store8 (i32.const 64) (i32.const 0))
        (i32.store (i32.const 72) (i32.const 32))
        (i32.store (i32.const 76) (i32.const 2))
        (i32.store8 (i32.const 80) (i32.const 1))
        (i32.store (i32.const 84) (i32.const 600))
        (i32.store (i32.const 88) (i32.const 50))
        (i32.store8 (i32.const 92) (i32.const 0))
        (i32.const 64)))
    (core instance $main (instantiate $main (with "world" (instance
      (export "random" (func $random)) (export "insecure" (func $insecure)) (export "now" (func $now))))))

    ;; The types of toolcell:tool/guest, each exported so that the functions may name it.
    (type $class (variant
      (case "invalid-arguments") (case "capability-gap") (case "setup-required") (case "credential-missing")
      (case "timeout") (case "rate-limited") (case "dependency-unavailable") (case "execution-failed")
      (case "partial-failure") (case "result-too-large") (case "canceled") (case "other" string)))
    (export $error-class "error-class" (type $class))
    (type $error (record
      (field "class" $error-class) (field "code" string) (field "message" string)
      (field "detail" (option string)) (field "retry-after-ms" (option u64))))
    (export $tool-error "tool-error" (type $error))
    (type $request (record
      (field "invocation-id" string) (field "tool" string) (field "input" string)
      (field "attempt" u32) (field "context" string)))
    (export $call "call" (type $request))
    (type $answer (record
      (field "content" string) (field "structured" (option string)) (field "ui-summary" (option string))))
    (export $output "output" (type $answer))
    (type $incomplete (record (field "output" $output) (field "error" $tool-error)))
    (export $partial-output "partial-output" (type $incomplete))
    (type $end (variant
      (case "success" $output) (case "text" string) (case "json" string) (case "partial" $partial-output)
      (case "failure" $tool-error)))
    (export $outcome "outcome" (type $end))

    (func (export "describe") (result string)
      (canon lift (core func $main "describe") (memory (core memory $main "memory"))))
    (func (export "invoke") (param "call" $call) (result $outcome)
      (canon lift (core func $main "invoke") (memory (core memory $main "memory"))
        (realloc (core func $main "realloc")))))
  (instance $guest (instantiate $tool
    (with "random" (instance $random)) (with "insecure" (instance $insecure)) (with "clock" (instance $clock))))
  (export "toolcell:tool/guest@0.2.0" (instance $guest)))
