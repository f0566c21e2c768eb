;; Makes parts of requests in the host, and sends none. `how`: 0 keeps headers, 1 drops them, 2 keeps requests with bodies,
;; 3 keeps requests and gives each a method of 4 MiB. Answers how many there were; of 3, how many took their method.
(component
  (import "wasi:http/types@0.2.6" (instance $http
    (export "fields" (type $fields (sub resource)))
    (export "outgoing-body" (type $body (sub resource)))
    (export "outgoing-request" (type $request (sub resource)))
    (type $kinds (variant
      (case "get") (case "head") (case "post") (case "put") (case "delete") (case "connect") (case "options")
      (case "trace") (case "patch") (case "other" string)))
    (export "method" (type $method (eq $kinds)))
    (export "[constructor]fields" (func (result (own $fields))))
    (export "[constructor]outgoing-request" (func (param "headers" (own $fields)) (result (own $request))))
    (export "[method]outgoing-request.body" (func (param "self" (borrow $request)) (result (result (own $body)))))
    (export "[method]outgoing-request.set-method"
      (func (param "self" (borrow $request)) (param "method" $method) (result (result))))))
  (alias export $http "fields" (type $fields))
  (core module $page (memory (export "memory") 66))
  (core instance $page (instantiate $page))
  (alias core export $page "memory" (core memory $memory))
  (core func $fields (canon lower (func $http "[constructor]fields")))
  (core func $drop (canon resource.drop $fields))
  (core func $request (canon lower (func $http "[constructor]outgoing-request")))
  (core func $body (canon lower (func $http "[method]outgoing-request.body") (memory $memory)))
  (core func $method (canon lower (func $http "[method]outgoing-request.set-method") (memory $memory)))
  (core module $main
    (import "" "memory" (memory 66))
    (import "" "fields" (func $fields (result i32)))
    (import "" "drop" (func $drop (param i32)))
    (import "" "request" (func $request (param i32) (result i32)))
    (import "" "body" (func $body (param i32 i32)))
    (import "" "method" (func $method (param i32 i32 i32 i32) (result i32)))
    (func (export "make") (param $count i32) (param $how i32) (result i32)
      (local $made i32) (local $refused i32) (local $at i32)
      (memory.fill (i32.const 65536) (i32.const 65) (i32.const 0x400000))
      (loop $each
        (local.set $made (call $fields))
        (block $other (block $method (block $body (block $dropped (block $kept
          (br_table $kept $dropped $body $method $other (local.get $how)))
          (br $other))
          (call $drop (local.get $made))
          (br $other))
          (call $body (call $request (local.get $made)) (i32.const 16))
          (br $other))
          (local.set $made (call $request (local.get $made)))
          (local.set $refused (i32.add (local.get $refused)
            (call $method (local.get $made) (i32.const 9) (i32.const 65536) (i32.const 0x400000)))))
        (br_if $each (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (local.get $count))))
      (i32.sub (local.get $at) (local.get $refused))))
  (core instance $main (instantiate $main (with "" (instance
    (export "memory" (memory $memory)) (export "fields" (func $fields)) (export "drop" (func $drop))
    (export "request" (func $request)) (export "body" (func $body)) (export "method" (func $method))))))
  (func (export "make") (param "count" u32) (param "how" u32) (result u32) (canon lift (core func $main "make"))))
