;; Exports the right interface with a function of another type.
(component
  (component $tool
    (core module $main
      (memory (export "memory") 1)
      (func (export "describe") (result i32) (i32.const 16))
      (func (export "invoke") (param $call i32) (result i32) (local.get $call)))
    (core instance $main (instantiate $main))
    (func (export "describe") (result string)
      (canon lift (core func $main "describe") (memory (core memory $main "memory"))))
    (func (export "invoke") (param "call" u32) (result u32) (canon lift (core func $main "invoke"))))
  (instance $guest (instantiate $tool))
  (export "toolcell:tool/guest@0.2.0" (instance $guest)))
