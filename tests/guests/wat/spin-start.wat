;; Loops in the start function of its module: before any function of the tool is called, at every instantiation.
(component
  (component $tool
    (core module $main
      (memory (export "memory") 1)
      (data (i32.const 32) "[]")
      (data (i32.const 1024)
        "{\"declarations\":["
        "{\"schema_version\":\"0.2.0\",\"tool_id\":\"wat.spin_start\",\"namespace\":\"wat\",\"name\":\"spin_start\","
        "\"description\":\"Never comes to life\",\"lifecycle\":\"available\",\"tool_kind\":\"function\","
        "\"input_contract\":{\"model_input_schema\":{\"type\":\"object\"},\"strict\":false},"
        "\"interface_ref\":\"wat.spin_start.interface\",\"execution_profile_ref\":\"wat.spin_start.execution\","
        "\"permission_profile_ref\":\"wat.spin_start.permissions\"}],"
        "\"interfaces\":["
        "{\"schema_version\":\"0.2.0\",\"interface_id\":\"wat.spin_start.interface\",\"tool_id\":\"wat.spin_start\","
        "\"is_read_only\":true,\"is_concurrency_safe\":true,\"is_destructive\":false,\"is_open_world\":false}],"
        "\"execution_profiles\":["
        "{\"schema_version\":\"0.2.0\",\"execution_profile_id\":\"wat.spin_start.execution\",\"execution_kind\":\"embedded_runtime\",\"supports_cancel\":true,\"sandboxed\":true}],"
        "\"permission_profiles\":["
        "{\"schema_version\":\"0.2.0\",\"permission_profile_id\":\"wat.spin_start.permissions\",\"risk_level\":\"low\","
        "\"access_kinds\":[],\"write_effects\":[\"none\"],\"network_scope\":\"none\"}]}")

      ;; Answers the text at 1024.
      (func (export "describe") (result i32)
        (i32.store (i32.const 16) (i32.const 1024))
        (i32.store (i32.const 20) (i32.const 982))
        (i32.const 16))

      ;; Hands out one block after the other, and never takes one back.
      (global $free (mut i32) (i32.const 8192))
      (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
        (global.set $free (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.get $free)
        (global.set $free (i32.add (global.get $free) (local.get $size))))

      (func (export "invoke")
        (param $id i32) (param $id_len i32) (param $tool i32) (param $tool_len i32) (param $input i32) (param $input_len i32)
        (param $attempt i32) (param $context i32) (param $context_len i32)
        (result i32)
        ;; At 64, an outcome: the case, then from 72 on the content, the structured text, and no summary.
        (i32.store8 (i32.const 64) (i32.const 0))
        (i32.store (i32.const 72) (i32.const 32))
        (i32.store (i32.const 76) (i32.const 2))
        (i32.store8 (i32.const 80) (i32.const 1))
        (i32.store (i32.const 84) (local.get $input))
        (i32.store (i32.const 88) (local.get $input_len))
        (i32.store8 (i32.const 92) (i32.const 0))
        (i32.const 64))

      (func $spin (loop $forever (br $forever)))
      (start $spin))
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
