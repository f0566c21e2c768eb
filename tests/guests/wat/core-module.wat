;; A core module where a component is expected.
(module
  (memory (export "memory") 1)
  (func (export "describe") (result i32) (i32.const 0)))
