;; A plain function that answers the path that it gets, in a component that imports HTTP.
(component
  (import "wasi:http/types@0.2.6" (instance (export "fields" (type (sub resource)))))
  (core module $main
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 8192))
    (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
      (global.get $free)
      (global.set $free (i32.add (global.get $free) (local.get $size))))
    (func (export "show") (param $path i32) (param $length i32) (result i32)
      (i32.store (i32.const 16) (local.get $path))
      (i32.store (i32.const 20) (local.get $length))
      (i32.const 16)))
  (core instance $main (instantiate $main))
  (func $show (param "path" string) (result string)
    (canon lift (core func $main "show") (memory (core memory $main "memory")) (realloc (core func $main "realloc"))))
  (export "show" (func $show)))
