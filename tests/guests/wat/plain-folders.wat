;; Plain functions that use files, in a component that says nothing of them: the path of the first folder that it has, and whether
;; a new folder could be made there.
(component
  (type $types-type (instance
    (export "descriptor" (type $descriptor (sub resource)))
    (type $code (enum "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist" "file-too-large"
      "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io" "is-directory" "loop" "too-many-links" "message-size"
      "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory" "insufficient-space" "not-directory" "not-empty"
      "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted" "pipe" "read-only" "invalid-seek"
      "text-file-busy" "cross-device"))
    (export "error-code" (type $error-code (eq $code)))
    (export "[method]descriptor.create-directory-at"
      (func (param "self" (borrow $descriptor)) (param "path" string) (result (result (error $error-code)))))))
  (import "wasi:filesystem/types@0.2.6" (instance $types (type $types-type)))
  (alias export $types "descriptor" (type $descriptor))
  (import "wasi:filesystem/preopens@0.2.6" (instance $preopens
    (alias outer 1 $descriptor (type $outer))
    (export "descriptor" (type $inner (eq $outer)))
    (export "get-directories" (func (result (list (tuple (own $inner) string)))))))
  (core module $libc
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 8192))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.set $free (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (global.get $free)
      (global.set $free (i32.add (global.get $free) (local.get 3)))))
  (core instance $libc (instantiate $libc))
  (core func $directories (canon lower (func $preopens "get-directories")
    (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core func $create (canon lower (func $types "[method]descriptor.create-directory-at")
    (memory (core memory $libc "memory"))))
  (core module $main
    (import "libc" "memory" (memory 1))
    (import "world" "directories" (func $directories (param i32)))
    (import "world" "create" (func $create (param i32 i32 i32 i32)))
    ;; The address of the first folder and its path, at 64 with their number; zero if there is none.
    (func $first (result i32)
      (call $directories (i32.const 64))
      (select (i32.load (i32.const 64)) (i32.const 0) (i32.load (i32.const 68))))
    (func (export "folder") (result i32)
      (local $first i32)
      (if (local.tee $first (call $first))
        (then
          (i32.store (i32.const 16) (i32.load offset=4 (local.get $first)))
          (i32.store (i32.const 20) (i32.load offset=8 (local.get $first)))))
      (i32.const 16))
    (func (export "make") (param $name i32) (param $length i32) (result i32)
      (local $first i32)
      (if (i32.eqz (local.tee $first (call $first))) (then (return (i32.const 0))))
      (call $create (i32.load (local.get $first)) (local.get $name) (local.get $length) (i32.const 32))
      (i32.eqz (i32.load8_u (i32.const 32)))))
  (core instance $main (instantiate $main (with "libc" (instance $libc)) (with "world" (instance
    (export "directories" (func $directories)) (export "create" (func $create))))))
  (func (export "folder") (result string)
    (canon lift (core func $main "folder") (memory (core memory $libc "memory"))))
  (func (export "make") (param "name" string) (result bool)
    (canon lift (core func $main "make") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc")))))
