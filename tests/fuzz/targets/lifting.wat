;; Fills its memory with its input, and returns a pointer to it: the input decides the outcome that the host lifts.
(component
  (component $tool
    (core module $main
      (memory (export "memory") 4)
      (data (i32.const 32) "[]")
      (data (i32.const 1024)
        "{\"declarations\":["
        "{\"schema_version\":\"0.2.0\",\"tool_id\":\"fuzz.lift\",\"namespace\":\"fuzz\",\"name\":\"lift\","
        "\"description\":\"Answers a pointer\",\"lifecycle\":\"available\",\"tool_kind\":\"function\","
        "\"input_contract\":{\"model_input_schema\":{\"type\":\"object\"},\"strict\":false},"
        "\"interface_ref\":\"fuzz.lift.interface\",\"execution_profile_ref\":\"fuzz.lift.execution\","
        "\"permission_profile_ref\":\"fuzz.lift.permissions\"}],"
        "\"interfaces\":["
        "{\"schema_version\":\"0.2.0\",\"interface_id\":\"fuzz.lift.interface\",\"tool_id\":\"fuzz.lift\","
        "\"is_read_only\":true,\"is_concurrency_safe\":true,\"is_destructive\":false,\"is_open_world\":false}],"
        "\"execution_profiles\":["
        "{\"schema_version\":\"0.2.0\",\"execution_profile_id\":\"fuzz.lift.execution\",\"execution_kind\":\"embedded_runtime\",\"supports_cancel\":true,\"sandboxed\":true}],"
        "\"permission_profiles\":["
        "{\"schema_version\":\"0.2.0\",\"permission_profile_id\":\"fuzz.lift.permissions\",\"risk_level\":\"low\","
        "\"access_kinds\":[],\"write_effects\":[\"none\"],\"network_scope\":\"none\"}]}")

      ;; Returns the text at 1024.
      (func (export "describe") (result i32)
        (i32.store (i32.const 16) (i32.const 1024))
        (i32.store (i32.const 20) (i32.const 935))
        (i32.const 16))

      ;; A bump allocator, which grows the memory when the last page is full.
      (global $free (mut i32) (i32.const 131072))
      (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
        (local $start i32)
        (local.set $start (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.set $free (i32.add (local.get $start) (local.get $size)))
        (block $fits
          (br_if $fits (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
          (br_if $fits (i32.ne
            (memory.grow (i32.add (i32.shr_u (local.get $size) (i32.const 16)) (i32.const 2)))
            (i32.const -1)))
          unreachable)
        (local.get $start))

      (func $nibble (param $c i32) (result i32)
        (select
          (i32.sub (local.get $c) (i32.const 48))
          (i32.sub (local.get $c) (i32.const 87))
          (i32.lt_u (local.get $c) (i32.const 58))))

      ;; The input is `{"m":"<hexadecimal digits>"}`; the bytes that it stands for go to 4096 and after.
      (func (export "invoke")
        (param $id i32) (param $id_len i32) (param $tool i32) (param $tool_len i32) (param $input i32) (param $input_len i32)
        (param $attempt i32) (param $context i32) (param $context_len i32)
        (result i32)
        (local $at i32) (local $end i32)
        (local.set $end (i32.shr_u (i32.sub (local.get $input_len) (i32.const 8)) (i32.const 1)))
        (block $done
          (loop $again
            (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
            (i32.store8 offset=4096 (local.get $at)
              (i32.or
                (i32.shl (call $nibble (i32.load8_u offset=6 (i32.add (local.get $input) (i32.shl (local.get $at) (i32.const 1))))) (i32.const 4))
                (call $nibble (i32.load8_u offset=7 (i32.add (local.get $input) (i32.shl (local.get $at) (i32.const 1)))))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $again)))
        (i32.const 4096)))
    (core instance $main (instantiate $main))

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
  (instance $guest (instantiate $tool))
  (export "toolcell:tool/guest@0.2.0" (instance $guest)))
